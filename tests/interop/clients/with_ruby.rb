# The gem stomp: ruby with_ruby.rb HOST PORT USER PASSWORD QUEUE
require 'stomp'

host, port, user, password, queue = ARGV
queue = "/queue/#{queue}"
# Waits for the first frame that `wanted` accepts.
def take(connection)
  Timeout.timeout(20) { loop { frame = connection.receive; return frame if yield frame } }
end

def check(what, got, wanted)
  abort "#{what}: #{got.inspect} instead of #{wanted.inspect}" unless got == wanted
end

connect = { 'accept-version' => '1.2', 'host' => '/', 'heart-beat' => '1000,1000' }
connection = Stomp::Connection.new(
  hosts: [{ login: user, passcode: password, host: host, port: port.to_i }],
  connect_headers: connect, reliable: false
)
sent = 0
send = lambda do |body, headers = {}|
  connection.publish(queue, body, headers.merge('receipt' => "s#{sent += 1}"))
  take(connection) { |frame| frame.command == 'RECEIPT' } unless headers.key?('transaction')
end

6.times { |number| send.call("m#{number}") }
connection.subscribe(queue, { 'ack' => 'auto', 'id' => 'auto' })
bodies = Array.new(6) { take(connection) { |frame| frame.command == 'MESSAGE' }.body }
check('six in a segment', bodies, (0..5).map { |number| "m#{number}" })
connection.unsubscribe(queue, { 'id' => 'auto' })

connection.subscribe(queue, { 'ack' => 'client-individual', 'id' => 'client' })
send.call('again')
connection.nack(take(connection) { |frame| frame.command == 'MESSAGE' }.headers['ack'])
again = take(connection) { |frame| frame.command == 'MESSAGE' }
check('redelivered', again.headers['redelivered'], 'true')
connection.ack(again.headers['ack'], { 'receipt' => 'acked' })
take(connection) { |frame| frame.command == 'RECEIPT' && frame.headers['receipt-id'] == 'acked' }

connection.begin('no')
send.call('aborted', 'transaction' => 'no')
connection.abort('no')
connection.begin('yes')
send.call('committed', 'transaction' => 'yes')
connection.commit('yes')
last = take(connection) { |frame| frame.command == 'MESSAGE' }
check('committed', last.body, 'committed')
connection.ack(last.headers['ack'])
connection.disconnect({ 'receipt' => 'bye' })
