const { workflow } = require('weir');
workflow({ name: 'same' }, async () => 1);
workflow({ name: 'same' }, async () => 2);
