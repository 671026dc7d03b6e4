// VitePress' own theme with system fonts: no fonts to load, and code looks as in the reader's terminal.
import theme from "vitepress/theme-without-fonts";
import "./style.css";

export default theme;
