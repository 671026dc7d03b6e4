module.exports = require("../index.js").types;
