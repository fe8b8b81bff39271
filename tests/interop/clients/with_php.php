<?php
// PHP's extension stomp: php with_php.php HOST PORT USER PASSWORD QUEUE
[, $host, $port, $user, $password, $queue] = $argv;
$queue = "/queue/$queue";
$stomp = new Stomp("tcp://$host:$port", $user, $password);
$stomp->setReadTimeout(20);

function check(string $what, mixed $got, mixed $wanted): void
{
    if ($got !== $wanted) {
        fwrite(STDERR, "$what: " . var_export($got, true) . ' instead of ' . var_export($wanted, true) . "\n");
        exit(1);
    }
}

for ($number = 0; $number < 6; $number++) {
    check('receipt', $stomp->send($queue, "m$number", ['receipt' => "r$number"]), true);
}
$stomp->subscribe($queue, ['ack' => 'auto']);
for ($number = 0; $number < 6; $number++) {
    $frame = $stomp->readFrame();
    check('six in a segment', $frame ? $frame->body : $frame, "m$number");
}
$stomp->unsubscribe($queue);

$stomp->subscribe($queue, ['ack' => 'client']);
$stomp->send($queue, 'once');
check('acknowledged', $stomp->ack($stomp->readFrame(), ['receipt' => 'a']), true);

$stomp->begin('no');
$stomp->send($queue, 'aborted', ['transaction' => 'no']);
$stomp->abort('no');
$stomp->begin('yes');
$stomp->send($queue, 'committed', ['transaction' => 'yes']);
$stomp->commit('yes');
$last = $stomp->readFrame();
check('committed', $last ? $last->body : $last, 'committed');
check('acknowledged', $stomp->ack($last, ['receipt' => 'b']), true);
