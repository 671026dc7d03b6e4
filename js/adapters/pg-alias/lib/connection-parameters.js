module.exports = require("../index.js").ConnectionParameters;
