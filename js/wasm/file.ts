// The type of `pgz-edge/pgz_edge_bg.wasm`, for code that imports the file: workerd and its bundlers make it a module.
declare const wasm: WebAssembly.Module;
export default wasm;
