# The gem stomp: ruby with_ruby.rb PORT,PORT USER PASSWORD QUEUE
# It goes to the next of its hosts when one does not take a connection, not when one refuses the login: the
# application then does.
require 'stomp'

ports, user, password, queue = ARGV
hosts = ports.split(',').map { |port| { login: user, passcode: password, host: '127.0.0.1', port: port.to_i } }

def connect(hosts)
  headers = { 'accept-version' => '1.2', 'host' => '/' }
  hosts.cycle do |host|
    connection = Stomp::Connection.new(hosts: [host], connect_headers: headers, reliable: false)
    return connection if connection.connection_frame.command == 'CONNECTED'
    puts "refused: #{connection.connection_frame.headers['message']}"
    sleep 0.1
  rescue SystemCallError, Stomp::Error::StompException
    sleep 0.1
  end
end

$stdout.sync = true
loop do
  connection = connect(hosts)
  connection.subscribe("/queue/#{queue}", { 'ack' => 'client-individual', 'id' => '1' })
  while (frame = connection.receive)
    next unless frame.command == 'MESSAGE'
    again = frame.headers['redelivered'] || 'false'
    puts "received: #{frame.body} #{again}"
    next unless again == 'true'
    connection.ack(frame.headers['ack'], { 'receipt' => 'acked' })
    while connection.receive.command != 'RECEIPT'; end
    connection.disconnect
    exit
  end
rescue SystemCallError, Stomp::Error::StompException
  next
end
