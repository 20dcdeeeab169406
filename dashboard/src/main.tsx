import '@preact/signals';
import { render } from 'preact';
import { App } from './app.tsx';
import './styles/tokens.css';
import './styles/base.css';
import './styles/parts.css';
import './styles/plain.css';

const element = document.getElementById('app');
if (element) render(<App />, element);
