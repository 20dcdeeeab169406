// The box for a page of another site: the slots of one workspace, what runs and what waits there. It has no address of its own
// beside the name in its path, keeps nothing in the browser and sends no cookie.
import '@preact/signals';
import { render } from 'preact';
import { Box } from './embed/box.tsx';
import './styles/tokens.css';
import './styles/base.css';
import './styles/parts.css';
import './styles/embed.css';

const element = document.getElementById('box');
if (element) render(<Box />, element);
