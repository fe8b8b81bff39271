// stompjs 2: node with_stompjs_2.cjs HOST PORT USER PASSWORD QUEUE [PATH OF THE WEBSOCKET]
const assert = require('node:assert');
const Stomp = require('stompjs');

const [, , host, port, user, password, name, path] = process.argv;
const queue = `/queue/${name}`;
setTimeout(() => { console.error('nothing came for 30 s'); process.exit(1); }, 30_000).unref();

const client = path ? Stomp.overWS(`ws://${host}:${port}${path}`) : Stomp.overTCP(host, Number(port));
client.heartbeat.outgoing = client.heartbeat.incoming = 5000;

async function main() {
  await new Promise((yes, no) => client.connect(user, password, yes, no));
  const receipts = new Map();
  client.onreceipt = (frame) => receipts.get(frame.headers['receipt-id'])();
  const confirmed = (id, act) => new Promise((yes) => { receipts.set(id, yes); act({ receipt: id }); });
  const waiting = [], came = [];
  const take = () => (came.length ? Promise.resolve(came.shift()) : new Promise((yes) => waiting.push(yes)));
  const hear = (message) => (waiting.length ? waiting.shift()(message) : came.push(message));

  for (let number = 0; number < 6; number++) {
    await confirmed(`s${number}`, (headers) => client.send(queue, headers, `m${number} \u20ac`));
  }
  const auto = client.subscribe(queue, hear, { ack: 'auto' });
  for (let number = 0; number < 6; number++) assert.equal((await take()).body, `m${number} \u20ac`);
  auto.unsubscribe();

  client.subscribe(queue, hear, { ack: 'client-individual' });
  client.send(queue, {}, 'again');
  (await take()).nack();
  const again = await take();
  assert.equal(again.headers.redelivered, 'true');
  again.ack();

  const no = client.begin('no');
  client.send(queue, { transaction: 'no' }, 'aborted');
  no.abort();
  const yes = client.begin('yes');
  client.send(queue, { transaction: 'yes' }, 'committed');
  yes.commit();
  const last = await take();
  assert.equal(last.body, 'committed');
  last.ack();
  client.disconnect(() => process.exit(0));
}

main().catch((error) => { console.error(error); process.exit(1); });
