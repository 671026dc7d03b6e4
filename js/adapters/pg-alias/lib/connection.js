module.exports = require("../index.js").Connection;
