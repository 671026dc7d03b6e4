module.exports = require("../index.js").Result;
