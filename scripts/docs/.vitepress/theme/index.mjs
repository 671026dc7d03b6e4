// VitePress' own theme with the system's fonts: nothing to load, and code looks as in the reader's terminal.
import theme from "vitepress/theme-without-fonts";
import "./style.css";

export default theme;
