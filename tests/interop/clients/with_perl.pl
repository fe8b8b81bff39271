# Net::Stomp: perl with_perl.pl HOST PORT USER PASSWORD QUEUE [transactional]
use strict;
use warnings;
use Net::Stomp;

my ($host, $port, $user, $password, $queue, $transactional) = @ARGV;
$queue = "/queue/$queue";
my $stomp = Net::Stomp->new({ hostname => $host, port => $port, timeout => 20 });
$stomp->connect({ login => $user, passcode => $password });

sub check { my ($what, $got, $wanted) = @_; die "$what: $got instead of $wanted\n" unless $got eq $wanted }
sub take {
    while (my $frame = $stomp->receive_frame) { return $frame if $frame->command eq $_[0] }
    die "no $_[0] came\n";
}
sub frame { $stomp->send_frame(Net::Stomp::Frame->new({ command => $_[0], headers => $_[1], body => $_[2] // '' })) }

for my $number (0 .. 5) {
    $stomp->send_with_receipt({ destination => $queue, body => "m$number" }) or die "no receipt\n";
}
$stomp->subscribe({ destination => $queue, ack => 'auto' });
check('six in a segment', take('MESSAGE')->body, "m$_") for 0 .. 5;
$stomp->unsubscribe({ destination => $queue });

$stomp->subscribe({ destination => $queue, ack => 'client' });
$stomp->send({ destination => $queue, body => 'again' });
$stomp->nack({ frame => take('MESSAGE') });
my $again = take('MESSAGE');
check('redelivered', $again->headers->{redelivered}, 'true');
$stomp->ack({ frame => $again });

frame('BEGIN', { transaction => 'no' });
$stomp->send({ destination => $queue, body => 'aborted', transaction => 'no' });
frame('ABORT', { transaction => 'no' });
my $committed = { destination => $queue, body => 'committed' };
if ($transactional) {
    $stomp->send_transactional($committed) or die "no receipt in the transaction\n";
} else {
    # send_transactional waits for a receipt before COMMIT, which comes behind it unless the listener confirms each frame.
    frame('BEGIN', { transaction => 'yes' });
    $stomp->send({ %$committed, transaction => 'yes' });
    frame('COMMIT', { transaction => 'yes' });
}
my $last = take('MESSAGE');
check('committed', $last->body, 'committed');
$stomp->ack({ frame => $last });
$stomp->disconnect;
