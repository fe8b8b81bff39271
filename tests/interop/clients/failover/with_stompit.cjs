// stompit, by its own failover: node with_stompit.cjs PORT,PORT USER PASSWORD QUEUE
const stompit = require('stompit');

const [, , ports, user, password, name] = process.argv;
const servers = ports.split(',').map((port) => ({
  host: '127.0.0.1', port: Number(port), connectHeaders: { host: '/', login: user, passcode: password },
}));
// It never asks a server again that has refused the login. So it gives up soon, and begins with the whole list.
const failover = new stompit.ConnectFailover(servers, { maxReconnects: 1, randomize: false });
failover.on('error', (error) => console.log(`refused: ${error.message}`));

function connect() {
  failover.connect((error, client) => {
    if (error) {
      setTimeout(connect, 100);
      return;
    }
    client.on('error', connect);
    client.subscribe({ destination: `/queue/${name}`, ack: 'client-individual' }, (lost, message) => {
      if (lost) return;
      message.readString('utf-8', (broken, body) => {
        if (broken) return;
        const again = message.headers.redelivered ?? 'false';
        console.log(`received: ${body} ${again}`);
        if (again === 'true') {
          client.ack(message);
          client.disconnect(() => process.exit(0));
        }
      });
    });
  });
}

connect();
