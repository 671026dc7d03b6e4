module.exports = require("../index.js").utils;
