<?php

/**
 * Conformance program of php-amqplib, as Debian packages it.
 *
 * The contract is in the README one folder up: AMQP_URI, COMPAT and RESTART come
 * from the environment, one line is printed a step, the first failure ends the
 * program with exit code 1.
 */

declare(strict_types=1);

ini_set('display_errors', 'stderr');
require_once '/usr/share/php/PhpAmqpLib/autoload.php';

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPConnectionClosedException;
use PhpAmqpLib\Exception\AMQPIOException;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Package;
use PhpAmqpLib\Wire\AMQPAbstractCollection as Type;
use PhpAmqpLib\Wire\AMQPDecimal;
use PhpAmqpLib\Wire\AMQPTable;

/** Bounds each wait for something that the broker is to send; seconds. */
const PATIENCE = 30;
const MIB = 1 << 20;

function check(bool $condition, string $what): void
{
    if (!$condition) {
        throw new RuntimeException($what);
    }
}

/** Fails unless both are of one type and value; objects compare by their content. */
function equal($got, $want, string $what): void
{
    $same = is_object($want) || is_array($want) ? $got == $want : $got === $want;
    check($same, sprintf('%s is %s, want %s', $what, var_export($got, true), var_export($want, true)));
}

/** A body that differs from itself at each shift up to 251 bytes. */
function pattern(int $size): string
{
    $unit = implode('', array_map('chr', range(0, 250)));
    return substr(str_repeat($unit, intdiv($size, 251) + 1), 0, $size);
}

/** One walk through the steps; each builds on the state of those before. */
final class Program
{
    private AMQPStreamConnection $connection;
    private AMQPChannel $channel;
    private string $exchange;
    private string $queue;
    private bool $nacked = false;
    /** @var string[] What the channel's listeners heard, in order. */
    private array $heard = [];
    private ?array $returned = null;

    public function __construct()
    {
        check(in_array(getenv('COMPAT'), ['3', '4'], true), 'COMPAT must be 3 or 4');
        check(getenv('AMQP_URI') !== false && getenv('RESTART') !== false, 'AMQP_URI and RESTART must be set');
        $prefix = 'clients.php.' . getmypid() . '.' . hrtime(true);
        $this->exchange = "$prefix.exchange";
        $this->queue = "$prefix.queue";
    }

    public function connect(): void
    {
        $uri = parse_url(getenv('AMQP_URI'));
        $path = $uri['path'] ?? '';
        $this->connection = new AMQPStreamConnection(
            $uri['host'],
            $uri['port'] ?? 5672,
            rawurldecode($uri['user'] ?? 'guest'),
            rawurldecode($uri['pass'] ?? 'guest'),
            strlen($path) > 1 ? rawurldecode(substr($path, 1)) : '/'
        );
        $capabilities = $this->connection->getServerProperties()['capabilities'][1];
        foreach (['publisher_confirms', 'basic.nack', 'consumer_cancel_notify'] as $name) {
            check((bool) $capabilities[$name][1], "capability $name is not announced");
        }
        $this->openChannel();
    }

    /** A channel in confirm mode whose listeners note what they hear. */
    private function openChannel(): void
    {
        $this->channel = $this->connection->channel();
        $this->channel->confirm_select();
        $this->channel->set_ack_handler(function () {
            $this->heard[] = 'ack';
        });
        $this->channel->set_nack_handler(function () {
            $this->nacked = true;
        });
        $this->channel->set_return_listener(function (...$returned) {
            $this->heard[] = 'return';
            $this->returned = $returned;
        });
    }

    public function declare(): void
    {
        for ($i = 0; $i < 2; $i++) { // the second time the same arguments must be accepted
            $this->channel->exchange_declare($this->exchange, 'topic', false, true, false);
            $ok = $this->channel->queue_declare($this->queue, false, true, false, false);
            equal($ok, [$this->queue, 0, 0], 'declare-ok');
        }
        [$name] = $this->channel->queue_declare('', false, false, true, true);
        check(str_starts_with($name, 'amq.gen-'), "server-named queue is called $name");
    }

    public function bind(): void
    {
        foreach (['order.*.created', 'audit.#', 'gone.#'] as $key) {
            $this->channel->queue_bind($this->queue, $this->exchange, $key);
        }
        $this->channel->queue_unbind($this->queue, $this->exchange, 'gone.#');
    }

    private function wantDepth(int $depth): void
    {
        [, $messages] = $this->channel->queue_declare($this->queue, true);
        equal($messages, $depth, 'queue depth');
    }

    private function awaitConfirms(): void
    {
        $this->channel->wait_for_pending_acks_returns(PATIENCE);
        check(!$this->nacked, 'the broker nacked a message');
    }

    /** Publishes one persistent message and waits for its confirm. */
    private function publish(string $body, array $properties = [], ?string $to = null, ?string $key = null): void
    {
        $message = new AMQPMessage($body, $properties + ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT]);
        $this->channel->basic_publish($message, $to ?? '', $key ?? $this->queue, true);
        $this->awaitConfirms();
    }

    private function getBack(string $body): AMQPMessage
    {
        $message = $this->channel->basic_get($this->queue, true);
        check($message !== null, 'get found no message');
        check($message->getBody() === $body, 'got a body of ' . strlen($message->getBody()) . ' bytes that differs');
        equal($message->getMessageCount(), 0, "get-ok's message count");
        return $message;
    }

    public function publishConfirm(): void
    {
        for ($i = 0; $i < 100; $i++) {
            $message = new AMQPMessage("order $i", ['delivery_mode' => 2]);
            $this->channel->basic_publish($message, $this->exchange, "order.$i.created");
        }
        // What no binding matches is confirmed too.
        $this->channel->basic_publish(new AMQPMessage('order 100'), $this->exchange, 'order.100.paid');
        $this->awaitConfirms();
        $this->wantDepth(100);
    }

    /** Subscribes, hands $count deliveries to $handle, cancels, and wants nothing left. */
    private function consume(int $prefetch, int $count, callable $handle): void
    {
        $this->channel->basic_qos(0, $prefetch, false);
        $seen = 0;
        $callback = function (AMQPMessage $message) use (&$seen, $handle) {
            $handle($seen++, $message);
        };
        $tag = $this->channel->basic_consume($this->queue, '', false, false, false, false, $callback);
        while ($seen < $count) {
            $this->channel->wait(null, false, PATIENCE);
        }
        $this->channel->basic_cancel($tag);
        $this->wantDepth(0);
    }

    public function consumeAck(): void
    {
        $this->consume(10, 100, function (int $i, AMQPMessage $message) {
            equal($message->getBody(), "order $i", "delivery $i");
            equal([(bool) $message->isRedelivered(), $message->getExchange()], [false, $this->exchange], "delivery $i");
            if ($i % 10 === 9) { // the full window at once
                $message->ack(true);
            }
        });
    }

    public function nackRequeue(): void
    {
        foreach (['back', 'away', 'kept'] as $body) {
            $this->publish($body);
        }
        $expected = [
            ['back', false, fn (AMQPMessage $m) => $m->nack(true)],
            ['back', true, fn (AMQPMessage $m) => $m->ack()],
            ['away', false, fn (AMQPMessage $m) => $m->reject(false)],
            ['kept', false, fn (AMQPMessage $m) => $m->ack()],
        ];
        $this->consume(1, count($expected), function (int $i, AMQPMessage $message) use ($expected) {
            [$body, $redelivered, $settle] = $expected[$i];
            equal([$message->getBody(), (bool) $message->isRedelivered()], [$body, $redelivered], "delivery $i");
            $settle($message);
        });
    }

    public function get(): void
    {
        $this->publish('first');
        $this->publish('second');
        $message = $this->channel->basic_get($this->queue);
        equal([$message->getBody(), $message->getMessageCount()], ['first', 1], 'get-ok');
        $message->ack();
        $this->getBack('second');
        equal($this->channel->basic_get($this->queue), null, 'get on the empty queue');
    }

    public function mandatoryReturn(): void
    {
        $this->heard = [];
        $properties = ['message_id' => 'm-1', 'application_headers' => new AMQPTable(['k' => 'v'])];
        $this->publish('undeliverable', $properties, $this->exchange, 'nowhere');
        equal($this->heard, ['return', 'ack'], 'what came');
        [$code, $text, $exchange, $key, $message] = $this->returned;
        equal([$code, $text, $exchange, $key], [312, 'NO_ROUTE', $this->exchange, 'nowhere'], 'return');
        $headers = $message->get('application_headers')->getNativeData();
        equal([$message->getBody(), $message->get('message_id'), $headers], ['undeliverable', 'm-1', ['k' => 'v']],
            'returned message');
    }

    /** Each field type that the library writes: b B s u I i l D S x T V t, A and F. */
    public function headers(): void
    {
        $fields = [
            'int8' => [-8, Type::T_INT_SHORTSHORT], 'uint8' => [200, Type::T_INT_SHORTSHORT_U],
            'int16' => [-1600, Type::T_INT_SHORT], 'uint16' => [60000, Type::T_INT_SHORT_U],
            'int32' => [-320000, Type::T_INT_LONG], 'uint32' => [4000000000, Type::T_INT_LONG_U],
            'int64' => [-64000000000000, Type::T_INT_LONGLONG],
            'decimal' => [new AMQPDecimal(31415, 2), Type::T_DECIMAL],
            'string' => ['snöwman ☃', Type::T_STRING_LONG], 'empty' => ['', Type::T_STRING_LONG],
            'bytes' => ["\x00\x01\xfe\xff", Type::T_BYTES], 'time' => [1700000000, Type::T_TIMESTAMP],
            'none' => [null, Type::T_VOID], 'yes' => [true, Type::T_BOOL], 'no' => [false, Type::T_BOOL],
        ];
        $native = array_map(fn (array $field) => $field[0], $fields);
        $native['time'] = DateTime::createFromFormat('U', '1700000000');
        $table = new AMQPTable();
        foreach ($fields as $key => [$value, $type]) {
            $table->set($key, $value, $type);
        }
        $sent = clone $table;
        $sent->set('table', $table, Type::T_TABLE);
        $array = [1, 'two', false, null, ['deep' => [3]]];
        $sent->set('array', $array);
        $properties = [
            'content_type' => 'application/json', 'content_encoding' => 'identity', 'priority' => 7,
            'correlation_id' => 'c-1', 'reply_to' => 'replies', 'message_id' => 'm-2', 'timestamp' => 1600000000,
            'type' => 'kind', 'app_id' => 'conformance', 'delivery_mode' => 2,
        ];
        $this->publish('{}', $properties + ['application_headers' => $sent]);
        $message = $this->getBack('{}');
        $got = $message->get('application_headers')->getNativeData();
        foreach ($native + ['table' => $native, 'array' => $array] as $key => $value) {
            check(array_key_exists($key, $got), "header $key is missing");
            equal($got[$key], $value, "header $key");
        }
        equal(count($got), count($native) + 2, 'number of headers');
        foreach ($properties as $key => $value) {
            equal($message->get($key), $value, $key);
        }
    }

    public function body12MiB(): void
    {
        $body = pattern(12 * MIB);
        $this->publish($body);
        $this->getBack($body);
    }

    public function body20MiB(): void
    {
        $body = pattern(20 * MIB);
        if (getenv('COMPAT') === '3') {
            $this->publish($body);
            $this->getBack($body);
            return;
        }
        $other = $this->connection->channel();
        $other->confirm_select();
        $other->basic_publish(new AMQPMessage($body), '', $this->queue);
        try {
            $other->wait_for_pending_acks(PATIENCE);
            throw new RuntimeException('the oversized message was taken');
        } catch (AMQPProtocolChannelException $e) {
            $text = 'PRECONDITION_FAILED - message size 20971520 is larger than configured max size 16777216';
            equal([$e->amqp_reply_code, $e->amqp_reply_text], [406, $text], 'close');
        }
        $this->wantDepth(0); // the other channel and the connection still work
    }

    public function channelError(): void
    {
        $other = $this->connection->channel();
        try {
            $other->queue_declare("$this->queue.absent", true);
            throw new RuntimeException('the absent queue was found');
        } catch (AMQPProtocolChannelException $e) {
            equal($e->amqp_reply_code, 404, 'reply code');
            check(str_starts_with($e->amqp_reply_text, "NOT_FOUND - no queue '$this->queue.absent'"),
                $e->amqp_reply_text);
        }
        check(!$other->is_open() && $this->channel->is_open() && $this->connection->isConnected(),
            'more than one channel closed');
        $this->openChannel();
        $this->publish('after the error');
        $this->getBack('after the error');
    }

    public function restart(): void
    {
        $properties = ['message_id' => 'm-3', 'application_headers' => new AMQPTable(['n' => 1])];
        $this->publish('survivor', $properties, $this->exchange, 'audit.restart');
        exec(getenv('RESTART'), $output, $code);
        equal($code, 0, "the restart command's exit code");
        try {
            // The library does not reconnect by itself; the first call finds out.
            $this->channel->queue_declare($this->queue, true);
            throw new RuntimeException('the connection outlived the restart');
        } catch (AMQPConnectionClosedException | AMQPIOException $e) {
            $this->connect();
        }
        $message = $this->getBack('survivor');
        $headers = $message->get('application_headers')->getNativeData();
        equal([$message->get('message_id'), $headers, $message->get('delivery_mode')], ['m-3', ['n' => 1], 2],
            'properties after the restart');
        // The durable binding must have survived too.
        $this->publish('routed', [], $this->exchange, 'order.x.created');
        $this->getBack('routed');
    }

    public function delete(): void
    {
        $this->publish('left behind');
        equal($this->channel->queue_delete($this->queue), 1, "delete-ok's message count");
        $this->channel->exchange_delete($this->exchange);
        try {
            $this->channel->exchange_declare($this->exchange, 'topic', true);
            throw new RuntimeException('the deleted exchange is still there');
        } catch (AMQPProtocolChannelException $e) {
            equal($e->amqp_reply_code, 404, 'reply code');
        }
        $this->connection->close();
    }
}

echo 'client php-amqplib ', Package::VERSION, "\n";
$program = new Program();
$steps = [
    'connect' => 'connect', 'declare' => 'declare', 'bind' => 'bind', 'publish-confirm' => 'publishConfirm',
    'consume-ack' => 'consumeAck', 'nack-requeue' => 'nackRequeue', 'get' => 'get',
    'mandatory-return' => 'mandatoryReturn', 'headers' => 'headers', 'body-12MiB' => 'body12MiB',
    'body-20MiB' => 'body20MiB', 'channel-error' => 'channelError', 'restart' => 'restart', 'delete' => 'delete',
];
foreach ($steps as $name => $method) {
    try {
        $program->$method();
    } catch (Throwable $e) {
        echo "FAIL $name: ", get_class($e), ': ', preg_replace('/\s+/', ' ', $e->getMessage()), "\n";
        fwrite(STDERR, "$e\n");
        exit(1);
    }
    echo "ok $name\n";
}
