module.exports = require("../index.js").TypeOverrides;
