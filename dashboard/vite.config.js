// Builds dist/, which is in the repository: a build of weir needs no Node. Each name is fixed; tools/embed_dashboard.py puts
// a version of the whole into the addresses.
//
// The pages and the box are built one after the other, each into one file. A chunk of both would have exports whose names
// change with each build, and nodes of two versions may serve one browser.
import { appendFileSync, readFileSync } from 'node:fs';
import { defineConfig } from 'vite';

const names = {
  'ibm-plex-sans-latin-400-normal.woff2': 'sans.woff2',
  'ibm-plex-sans-latin-600-normal.woff2': 'sans-bold.woff2',
};
names['ibm-plex-mono-latin-400-normal.woff2'] = 'mono.woff2';

// The licenses of all that is in dist/ and was made by others.
const shipped = [
  'preact',
  '@preact/signals',
  '@preact/signals-core',
  '@fontsource/ibm-plex-sans',
  '@fontsource/ibm-plex-mono',
];
const finish = {
  name: 'finish',
  generateBundle() {
    const texts = shipped.map((name) => {
      const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8'));
      return `${name} ${version} (${license})\n\n${readFileSync(`node_modules/${name}/LICENSE`, 'utf8').trim()}\n`;
    });
    this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: texts.join(`\n${'-'.repeat(72)}\n\n`) });
  },
  // Each text file of the repository ends with a new line.
  writeBundle({ dir }, bundle) {
    for (const name of ['app.js', 'embed.js', 'app.css', 'embed.css'])
      if (name in bundle) appendFileSync(`${dir}/${name}`, '\n');
  },
};

const isBox = process.env.DASHBOARD_PART === 'box';

export default defineConfig({
  base: './',
  plugins: [finish],
  build: {
    target: 'es2022',
    outDir: process.env.DASHBOARD_OUT ?? 'dist',
    emptyOutDir: !isBox,
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      input: isBox ? { embed: 'src/embed.tsx' } : { app: 'src/main.tsx' },
      output: {
        entryFileNames: '[name].js',
        assetFileNames: ({ names: [name] }) =>
          name?.endsWith('.css') ? (isBox ? 'embed.css' : 'app.css') : (names[name] ?? name),
      },
    },
  },
});
