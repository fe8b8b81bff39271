// @stomp/stompjs: node with_stompjs.mjs PORT,PORT USER PASSWORD QUEUE PATH OF STOMPJS
import { createRequire } from 'node:module';

const [, , ports, user, password, name, library] = process.argv;
const { Client } = createRequire(import.meta.url)(library);
const urls = ports.split(',').map((port) => `ws://127.0.0.1:${port}/ws`);

const client = new Client({
  connectHeaders: { login: user, passcode: password },
  reconnectDelay: 100,
  // The next of the list at each attempt: a standby refuses the WebSocket with 503.
  beforeConnect: () => { client.brokerURL = urls[0]; urls.push(urls.shift()); },
  onWebSocketError: () => console.log(`refused: ${client.brokerURL}`),
  onConnect: () => client.subscribe(`/queue/${name}`, (message) => {
    const again = message.headers.redelivered ?? 'false';
    console.log(`received: ${message.body} ${again}`);
    if (again !== 'true') return;
    client.watchForReceipt('acked', () => client.deactivate());
    message.ack({ receipt: 'acked' });
  }, { ack: 'client-individual' }),
});
client.activate();
