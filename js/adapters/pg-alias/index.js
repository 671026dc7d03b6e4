// `require("pg")`: what the facade exports, as one object that an application may change.
module.exports = require("pgz-edge/pg").default;
