module.exports = require("../index.js").Client;
