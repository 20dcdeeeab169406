const { workflow } = require('weir');
workflow({ name: 'x' }, nothing);
