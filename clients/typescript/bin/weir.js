#!/usr/bin/env node
require('../dist/command.js').main(process.argv.slice(2));
