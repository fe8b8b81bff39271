// stompit: node with_stompit.cjs HOST PORT USER PASSWORD QUEUE
const assert = require('node:assert');
const { promisify } = require('node:util');
const stompit = require('stompit');

const [, , host, port, user, password, name] = process.argv;
const queue = `/queue/${name}`;
setTimeout(() => { console.error('nothing came for 30 s'); process.exit(1); }, 30_000).unref();

async function main() {
  const client = await promisify(stompit.connect)({
    host, port: Number(port), connectHeaders: { host: '/', login: user, passcode: password, 'heart-beat': '5000,5000' },
  });
  const send = (body, to = client) => new Promise((yes) => {
    const frame = to.send({ destination: queue }, { onReceipt: yes });
    frame.end(body);
  });
  const waiting = [], came = [];
  const take = () => (came.length ? Promise.resolve(came.shift()) : new Promise((yes) => waiting.push(yes)));
  const consume = (ack) => client.subscribe({ destination: queue, ack }, (error, message) => {
    if (error) throw error;
    message.readString('utf-8', (wrong, body) => {
      if (wrong) throw wrong;
      const one = { message, body };
      if (waiting.length) waiting.shift()(one); else came.push(one);
    });
  });

  for (let number = 0; number < 6; number++) await send(`m${number}`);
  let subscription = consume('auto');
  for (let number = 0; number < 6; number++) assert.equal((await take()).body, `m${number}`);
  subscription.unsubscribe();

  subscription = consume('client-individual');
  await send('again');
  client.nack((await take()).message);
  const again = await take();
  assert.equal(again.message.headers.redelivered, 'true');
  client.ack(again.message);

  const no = client.begin();
  no.send({ destination: queue }).end('aborted');
  no.abort();
  const yes = client.begin();
  yes.send({ destination: queue }).end('committed');
  await new Promise((done) => yes.commit({ onReceipt: done }));
  const last = await take();
  assert.equal(last.body, 'committed');
  client.ack(last.message);
  client.disconnect(() => process.exit(0));
}

main().catch((error) => { console.error(error); process.exit(1); });
