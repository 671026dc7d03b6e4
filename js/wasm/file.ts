// The type of `pgz-edge/pgz_edge_bg.wasm`, for those who import the file: what workerd and its bundlers make of it.
declare const wasm: WebAssembly.Module;
export default wasm;
