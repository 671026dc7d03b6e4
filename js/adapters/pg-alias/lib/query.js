module.exports = require("../index.js").Query;
