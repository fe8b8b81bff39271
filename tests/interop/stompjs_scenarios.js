// Conversations of @stomp/stompjs with a broker, the same in Node and in a browser. Each scenario is a
// function (StompJs, settings) that throws when something is not as it should be.
// settings: {url, login, passcode, version, unique}
globalThis.scenarios = (() => {
  const WAIT_MS = 20000;
  let count = 0;

  function check(condition, what) {
    if (!condition) throw new Error(what);
  }

  function equal(got, wanted) {
    check(JSON.stringify(got) === JSON.stringify(wanted), `got ${JSON.stringify(got)}, not ${JSON.stringify(wanted)}`);
  }

  function within(promise, what) {
    let timer;
    const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error(`waited in vain for ${what}`)), WAIT_MS); });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
  }

  /** What arrives, one by one. */
  class Inbox {
    waiting = [];
    asked = [];
    put(item) { this.asked.length ? this.asked.shift()(item) : this.waiting.push(item); }
    next() {
      const item = this.waiting.length ? Promise.resolve(this.waiting.shift()) : new Promise((yes) => this.asked.push(yes));
      return within(item, 'a message');
    }
    async bodies(number) {
      const found = [];
      for (let n = 0; n < number; n++) found.push((await this.next()).body);
      return found;
    }
  }

  async function connect(StompJs, settings, options = {}) {
    const client = new StompJs.Client({
      brokerURL: settings.url,
      connectHeaders: { login: settings.login, passcode: settings.passcode },
      stompVersions: new StompJs.Versions([settings.version]),
      reconnectDelay: 0,
      heartbeatIncoming: 0,
      heartbeatOutgoing: 0,
      ...options,
    });
    client.connected_ = await within(new Promise((yes, no) => {
      client.onConnect = yes;
      client.onStompError = (frame) => no(new Error(frame.headers.message));
      client.activate();
    }), 'CONNECTED');
    client.onStompError = (frame) => { client.error_ = frame; };
    return client;
  }

  function confirmed(client, action) {
    const receipt = `r${++count}`;
    const done = within(new Promise((yes) => client.watchForReceipt(receipt, yes)), 'a receipt');
    action(receipt);
    return done;
  }

  const send = (client, destination, body, headers = {}) =>
    confirmed(client, (receipt) => client.publish({ destination, body, headers: { receipt, ...headers } }));

  async function subscribe(client, destination, headers = {}) {
    const inbox = new Inbox();
    await confirmed(client, (receipt) => {
      inbox.subscription = client.subscribe(destination, (message) => inbox.put(message), { receipt, ...headers });
    });
    return inbox;
  }

  const queue = (settings) => `/queue/stompjs.${settings.unique}.${++count}`;

  return {
    async connects_with_its_version(StompJs, settings) {
      const client = await connect(StompJs, settings);
      equal(client.connected_.headers.version, settings.version);
      check(client.connected_.headers.server.startsWith('MOM/'), client.connected_.headers.server);
      await client.deactivate();
    },

    async refuses_a_wrong_passcode(StompJs, settings) {
      let said = '';
      await connect(StompJs, { ...settings, passcode: 'wrong' }).catch((error) => { said = error.message; });
      check(said.includes('login or passcode is wrong'), said);
    },

    async heart_beats_are_agreed(StompJs, settings) {
      if (settings.version === '1.0') return; // 1.0 has no heart-beats
      const client = await connect(StompJs, settings, { heartbeatIncoming: 10000, heartbeatOutgoing: 10000 });
      equal(client.connected_.headers['heart-beat'], '10000,10000');
      await client.deactivate();
    },

    async carries_text_and_headers_unchanged(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const name = queue(settings);
      // stompjs escapes headers in 1.2 only.
      const value = settings.version === '1.2' ? 'Grüße: 你好 \\ 🙂\nnext' : 'Grüße 你好 🙂';
      await send(client, name, 'hällo 🙂', { value, 'content-type': 'text/plain' });
      const message = await (await subscribe(client, name)).next();
      equal([message.body, message.headers.value, message.headers['content-type']], ['hällo 🙂', value, 'text/plain']);
      equal(message.headers.destination, name);
      await client.deactivate();
    },

    async carries_binary_bodies_with_nul_bytes(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const name = queue(settings);
      const binaryBody = new Uint8Array([0, 1, 0, 255, 254, 0]);
      await confirmed(client, (receipt) => client.publish({ destination: name, binaryBody, headers: { receipt } }));
      const message = await (await subscribe(client, name)).next();
      equal(Array.from(message.binaryBody), Array.from(binaryBody));
      await client.deactivate();
    },

    async carries_sixteen_mebibytes(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const name = queue(settings);
      const binaryBody = new Uint8Array(16 * 1024 * 1024).map((_, n) => n * 7 + (n >> 8));
      await confirmed(client, (receipt) => client.publish({ destination: name, binaryBody, headers: { receipt } }));
      const got = (await (await subscribe(client, name)).next()).binaryBody;
      check(got.length === binaryBody.length && got.every((byte, n) => byte === binaryBody[n]), 'the body has changed');
      await client.deactivate();
    },

    async splits_large_frames_over_websocket_messages(StompJs, settings) {
      const client = await connect(StompJs, settings, { splitLargeFrames: true, maxWebSocketChunkSize: 100 });
      const name = queue(settings);
      const body = 'abcdefghij'.repeat(500);
      await send(client, name, body);
      equal((await (await subscribe(client, name)).next()).body, body);
      await client.deactivate();
    },

    async auto_settles_by_itself(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const name = queue(settings);
      for (const body of ['0', '1', '2']) await send(client, name, body);
      equal(await (await subscribe(client, name)).bodies(3), ['0', '1', '2']);
      await client.deactivate();
      const other = await connect(StompJs, settings);
      const inbox = await subscribe(other, name);
      await send(other, name, 'marker');
      equal((await inbox.next()).body, 'marker');
      await other.deactivate();
    },

    async client_acknowledges_all_up_to_one(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const name = queue(settings);
      for (const body of ['0', '1', '2', '3']) await send(client, name, body);
      const inbox = await subscribe(client, name, { ack: 'client' });
      const messages = [await inbox.next(), await inbox.next(), await inbox.next(), await inbox.next()];
      await confirmed(client, (receipt) => messages[1].ack({ receipt }));
      await client.deactivate();
      const other = await connect(StompJs, settings);
      const rest = await subscribe(other, name);
      const again = [await rest.next(), await rest.next()];
      equal(again.map((message) => [message.body, message.headers.redelivered]), [['2', 'true'], ['3', 'true']]);
      await other.deactivate();
    },

    async client_individual_acknowledges_one(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const name = queue(settings);
      for (const body of ['0', '1', '2']) await send(client, name, body);
      const inbox = await subscribe(client, name, { ack: 'client-individual' });
      const messages = [await inbox.next(), await inbox.next(), await inbox.next()];
      await confirmed(client, (receipt) => messages[1].ack({ receipt }));
      await client.deactivate();
      const other = await connect(StompJs, settings);
      equal(await (await subscribe(other, name)).bodies(2), ['0', '2']);
      await other.deactivate();
    },

    async nack_brings_a_message_back(StompJs, settings) {
      if (settings.version === '1.0') return; // 1.0 has no NACK
      const client = await connect(StompJs, settings);
      const name = queue(settings);
      await send(client, name, 'one');
      const inbox = await subscribe(client, name, { ack: 'client-individual' });
      (await inbox.next()).nack();
      const again = await inbox.next();
      equal([again.body, again.headers.redelivered, again.headers.attempt], ['one', 'true', '2']);
      again.nack({ requeue: 'false' });
      equal((await (await subscribe(client, `${name}.dead`)).next()).headers['dead-reason'], 'REJECTED');
      await client.deactivate();
    },

    async transactions_are_all_or_nothing(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const name = queue(settings);
      const inbox = await subscribe(client, name);
      const aborted = client.begin();
      client.publish({ destination: name, body: 'never', headers: { transaction: aborted.id } });
      aborted.abort();
      const committed = client.begin();
      for (const body of ['a', 'b']) client.publish({ destination: name, body, headers: { transaction: committed.id } });
      await send(client, name, 'outside');
      committed.commit();
      equal(await inbox.bodies(3), ['outside', 'a', 'b']);
      await client.deactivate();
    },

    async wildcards_match_levels(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const topic = `/topic/stompjs.${settings.unique}.${++count}`;
      const one = await subscribe(client, `${topic}.*`);
      const rest = await subscribe(client, `${topic}.>`);
      await send(client, `${topic}.a`, 'level one');
      await send(client, `${topic}.a.b`, 'level two');
      equal(await rest.bodies(2), ['level one', 'level two']);
      await send(client, `${topic}.c`, 'again');
      equal(await one.bodies(2), ['level one', 'again']);
      await client.deactivate();
    },

    async a_request_is_answered_on_a_temporary_queue(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const server = await connect(StompJs, settings);
      const name = queue(settings);
      const requests = await subscribe(server, name);
      const replies = await subscribe(client, '/temp-queue/replies');
      client.publish({ destination: name, body: 'question', headers: { 'reply-to': '/temp-queue/replies' } });
      const request = await requests.next();
      server.publish({ destination: request.headers['reply-to'], body: `answer to ${request.body}` });
      equal((await replies.next()).body, 'answer to question');
      await Promise.all([client.deactivate(), server.deactivate()]);
    },

    async a_reply_to_that_nobody_subscribed_is_subscribed_by_itself(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const name = queue(settings);
      const replies = new Inbox();
      client.onUnhandledMessage = (message) => replies.put(message);
      const requests = await subscribe(client, name);
      client.publish({ destination: name, body: 'q', headers: { 'reply-to': '/temp-queue/auto' } });
      client.publish({ destination: (await requests.next()).headers['reply-to'], body: 'a' });
      const reply = await replies.next();
      equal([reply.body, reply.headers.subscription], ['a', '/temp-queue/auto']);
      await client.deactivate();
    },

    async many_messages_arrive_once_and_in_order(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const name = queue(settings);
      const inbox = await subscribe(client, name, { ack: 'client-individual' });
      const wanted = [];
      for (let n = 0; n < 500; n++) {
        client.publish({ destination: name, body: `${n}` });
        wanted.push(`${n}`);
      }
      const got = [];
      for (let n = 0; n < 500; n++) {
        const message = await inbox.next();
        got.push(message.body);
        message.ack();
      }
      equal(got, wanted);
      await client.deactivate();
    },

    async an_error_is_an_error_frame_and_the_end(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const closed = within(new Promise((yes) => { client.onWebSocketClose = yes; }), 'the end of the connection');
      client.publish({ destination: '/nowhere/at-all', body: 'x' });
      await closed;
      check(client.error_.headers.message.includes('has no known prefix'), client.error_.headers.message);
      equal(JSON.parse(client.error_.body).type, '/docs/problems/bad-destination');
      client.deactivate();
    },

    async disconnecting_is_answered(StompJs, settings) {
      const client = await connect(StompJs, settings);
      const answered = new Promise((yes) => { client.onDisconnect = yes; });
      client.deactivate();
      await within(answered, 'the receipt of DISCONNECT');
    },
  };
})();

/** Runs one scenario; answers "" or what went wrong. */
globalThis.runScenario = async (StompJs, name, settings) => {
  try {
    await globalThis.scenarios[name](StompJs, settings);
    return '';
  } catch (error) {
    return `${error.message}\n${error.stack}`;
  }
};
