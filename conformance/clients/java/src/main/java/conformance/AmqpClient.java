package conformance;

import static conformance.Walk.check;
import static conformance.Walk.equal;
import static conformance.Walk.next;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.client.impl.LongStringHelper;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Conformance program of com.rabbitmq:amqp-client with its automatic and topology recovery.
 *
 * <p>Each step builds on the state of those before. The main thread owns all fields; the library's
 * threads reach it by way of blocking queues.
 */
final class AmqpClient {
  private final String exchange;
  private final String queue;
  private final BlockingQueue<Boolean> recovered = new LinkedBlockingQueue<>();
  private Connection connection;
  private Channel channel;

  private AmqpClient() {
    String prefix = Walk.prefix("java");
    exchange = prefix + ".exchange";
    queue = prefix + ".queue";
  }

  public static void main(String[] arguments) {
    AmqpClient c = new AmqpClient();
    String version = ConnectionFactory.class.getPackage().getImplementationVersion();
    new Walk()
        .step("connect", c::connect)
        .step("declare", c::declare)
        .step("bind", c::bind)
        .step("publish-confirm", c::publishConfirm)
        .step("consume-ack", c::consumeAck)
        .step("nack-requeue", c::nackRequeue)
        .step("get", c::get)
        .step("mandatory-return", c::mandatoryReturn)
        .step("headers", c::headers)
        .step("body-12MiB", c::body12MiB)
        .step("body-20MiB", c::body20MiB)
        .step("channel-error", c::channelError)
        .step("restart", c::restart)
        .step("delete", c::delete)
        .run("amqp-client", version == null ? "unknown" : version);
  }

  private void connect() throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(Walk.URI);
    factory.setAutomaticRecoveryEnabled(true);
    factory.setTopologyRecoveryEnabled(true);
    factory.setNetworkRecoveryInterval(500);
    connection = factory.newConnection("conformance-java");
    ((Recoverable) connection)
        .addRecoveryListener(
            new RecoveryListener() {
              @Override
              public void handleRecovery(Recoverable recoverable) {
                recovered.add(true);
              }

              @Override
              public void handleRecoveryStarted(Recoverable recoverable) {}
            });
    Object capabilities = connection.getServerProperties().get("capabilities");
    for (String name : List.of("publisher_confirms", "basic.nack", "consumer_cancel_notify")) {
      equal(((Map<?, ?>) capabilities).get(name), true, "capability " + name);
    }
    openChannel();
  }

  private void openChannel() throws IOException {
    channel = connection.createChannel();
    channel.confirmSelect();
  }

  private void declare() throws IOException {
    for (int i = 0; i < 2; i++) { // the second time the same arguments must be accepted
      channel.exchangeDeclare(exchange, "topic", true);
      AMQP.Queue.DeclareOk ok = channel.queueDeclare(queue, true, false, false, null);
      equal(ok.getQueue(), queue, "declared name");
      equal(ok.getMessageCount() + ok.getConsumerCount(), 0, "messages and consumers");
    }
    String named = channel.queueDeclare().getQueue();
    check(named.startsWith("amq.gen-"), "server-named queue is called " + named);
  }

  private void bind() throws IOException {
    for (String key : List.of("order.*.created", "audit.#", "gone.#")) {
      channel.queueBind(queue, exchange, key);
    }
    channel.queueUnbind(queue, exchange, "gone.#");
  }

  private void wantDepth(int depth) throws IOException {
    equal(channel.queueDeclarePassive(queue).getMessageCount(), depth, "queue depth");
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static String text(byte[] body) {
    return new String(body, StandardCharsets.UTF_8);
  }

  /** Publishes one message and waits for its confirm. */
  private void publish(String to, String key, BasicProperties properties, byte[] body) throws Exception {
    channel.basicPublish(to, key, true, properties, body);
    channel.waitForConfirmsOrDie(Walk.PATIENCE.toMillis());
  }

  private void send(byte[] body) throws Exception {
    publish("", queue, MessageProperties.PERSISTENT_BASIC, body);
  }

  private GetResponse getBack(byte[] body) throws IOException {
    GetResponse got = channel.basicGet(queue, true);
    check(got != null, "get found no message");
    Walk.equalBodies(got.getBody(), body);
    equal(got.getMessageCount(), 0, "get-ok's message count");
    return got;
  }

  private void publishConfirm() throws Exception {
    for (int i = 0; i <= 100; i++) {
      // The last one matches no binding, and is confirmed too.
      String key = i < 100 ? "order." + i + ".created" : "order.100.paid";
      channel.basicPublish(exchange, key, MessageProperties.PERSISTENT_BASIC, bytes("order " + i));
    }
    channel.waitForConfirmsOrDie(Walk.PATIENCE.toMillis());
    wantDepth(100);
  }

  private BlockingQueue<Delivery> consume(String tag, int prefetch) throws IOException {
    channel.basicQos(prefetch);
    BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
    channel.basicConsume(queue, false, tag, (t, delivery) -> deliveries.add(delivery), t -> {});
    return deliveries;
  }

  private void consumeAck() throws Exception {
    BlockingQueue<Delivery> deliveries = consume("acker", 10);
    for (int i = 0; i < 100; i++) {
      Delivery delivery = next(deliveries, "delivery");
      equal(text(delivery.getBody()), "order " + i, "delivery");
      equal(delivery.getEnvelope().isRedeliver(), false, "redelivered");
      equal(delivery.getEnvelope().getExchange(), exchange, "exchange");
      if (i % 10 == 9) { // the full window at once
        channel.basicAck(delivery.getEnvelope().getDeliveryTag(), true);
      }
    }
    channel.basicCancel("acker");
    wantDepth(0);
  }

  private void nackRequeue() throws Exception {
    for (String body : List.of("back", "away", "kept")) {
      send(bytes(body));
    }
    BlockingQueue<Delivery> deliveries = consume("nacker", 1);
    for (String want : List.of("back false", "back true", "away false", "kept false")) {
      Delivery delivery = next(deliveries, "delivery");
      equal(text(delivery.getBody()) + " " + delivery.getEnvelope().isRedeliver(), want, "delivery");
      long tag = delivery.getEnvelope().getDeliveryTag();
      switch (want) {
        case "back false" -> channel.basicNack(tag, false, true);
        case "away false" -> channel.basicReject(tag, false);
        default -> channel.basicAck(tag, false);
      }
    }
    channel.basicCancel("nacker");
    wantDepth(0);
  }

  private void get() throws Exception {
    send(bytes("first"));
    send(bytes("second"));
    GetResponse got = channel.basicGet(queue, false);
    equal(text(got.getBody()) + " " + got.getMessageCount(), "first 1", "get-ok");
    channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
    getBack(bytes("second"));
    equal(channel.basicGet(queue, true), null, "get on the empty queue");
  }

  private void mandatoryReturn() throws Exception {
    BlockingQueue<Return> returns = new LinkedBlockingQueue<>();
    channel.addReturnListener(returns::add);
    BasicProperties properties =
        new BasicProperties.Builder().messageId("m-1").headers(Map.of("k", "v")).build();
    publish(exchange, "nowhere", properties, bytes("undeliverable"));
    Return got = returns.poll(); // the library's one reader thread read it before the confirm
    check(got != null, "confirmed, but not returned before");
    equal(got.getReplyCode() + " " + got.getReplyText(), "312 NO_ROUTE", "return");
    equal(got.getExchange() + " " + got.getRoutingKey(), exchange + " nowhere", "return");
    equal(text(got.getBody()) + " " + got.getProperties().getMessageId(), "undeliverable m-1", "message");
    equal(got.getProperties().getHeaders().toString(), "{k=v}", "headers");
  }

  /** Each field type that the library writes: S I D T b d f l s t x V, A and F. */
  private static Map<String, Object> fields() {
    Map<String, Object> fields = new HashMap<>();
    fields.put("string", LongStringHelper.asLongString("snöwman ☃"));
    fields.put("empty", LongStringHelper.asLongString(""));
    fields.put("int8", (byte) -8);
    fields.put("int16", (short) -1600);
    fields.put("int32", -320000);
    fields.put("int64", -64000000000000L);
    fields.put("float", 0.5f);
    fields.put("double", -2.25);
    fields.put("decimal", new BigDecimal("314.15"));
    fields.put("time", new Date(1700000000000L));
    fields.put("yes", true);
    fields.put("no", false);
    fields.put("bytes", new byte[] {0, 1, -2, -1});
    fields.put("none", null);
    return fields;
  }

  private void headers() throws Exception {
    Map<String, Object> sent = fields();
    sent.put("table", fields());
    sent.put("array", Arrays.asList(1, LongStringHelper.asLongString("two"), false, null, Map.of("deep", List.of(3L))));
    BasicProperties properties =
        new BasicProperties(
            "application/json", "identity", sent, 2, 7, "c-1", "replies", null, "m-2",
            new Date(1600000000000L), "kind", null, "conformance", null);
    publish("", queue, properties, bytes("{}"));
    BasicProperties got = getBack(bytes("{}")).getProps();
    equalTables(got.getHeaders(), sent, "headers");
    equal(got.builder().headers(null).build(), properties.builder().headers(null).build(), "properties");
  }

  /** Compares tables whose values may be arrays of bytes, which Map.equals would not look into. */
  private static void equalTables(Map<?, ?> got, Map<?, ?> want, String what) {
    equal(got.keySet(), want.keySet(), what);
    for (Object key : want.keySet()) {
      if (want.get(key) instanceof Map<?, ?> table) {
        equalTables((Map<?, ?>) got.get(key), table, what + " " + key);
      } else {
        equal(got.get(key), want.get(key), what + " " + key);
      }
    }
  }

  private void body12MiB() throws Exception {
    byte[] body = Walk.pattern(12 * Walk.MIB);
    send(body);
    getBack(body);
  }

  /** The broker's close of a channel, out of what the library throws for it. */
  private static AMQP.Channel.Close close(Throwable thrown) {
    for (Throwable t = thrown; t != null; t = t.getCause()) {
      if (t instanceof ShutdownSignalException signal
          && signal.getReason() instanceof AMQP.Channel.Close close) {
        return close;
      }
    }
    throw new IllegalStateException("want a close of the channel by the broker, got " + thrown, thrown);
  }

  private static void wantClose(Walk.Step step, int code, String text) {
    AMQP.Channel.Close close = null;
    try {
      step.take();
    } catch (Exception e) {
      close = close(e);
    }
    check(close != null, "want a channel closed with " + code);
    equal(close.getReplyCode(), code, "reply code");
    check(close.getReplyText().startsWith(text), "reply text is " + close.getReplyText());
  }

  private void body20MiB() throws Exception {
    byte[] body = Walk.pattern(20 * Walk.MIB);
    if (!Walk.PROFILE_4) {
      send(body);
      getBack(body);
      return;
    }
    Channel other = connection.createChannel();
    other.confirmSelect();
    String text = "PRECONDITION_FAILED - message size 20971520 is larger than configured max size 16777216";
    wantClose(
        () -> {
          other.basicPublish("", queue, null, body);
          other.waitForConfirms(Walk.PATIENCE.toMillis());
        },
        406,
        text);
    wantDepth(0); // the other channel and the connection still work
  }

  private void channelError() throws Exception {
    Channel other = connection.createChannel();
    wantClose(
        () -> other.queueDeclarePassive(queue + ".absent"), 404, "NOT_FOUND - no queue '" + queue + ".absent'");
    check(!other.isOpen() && channel.isOpen() && connection.isOpen(), "more than one channel closed");
    openChannel();
    send(bytes("after the error"));
    getBack(bytes("after the error"));
  }

  /** Connection, channels, the exclusive queue, its binding and consumer come back by themselves. */
  private void restart() throws Exception {
    BasicProperties properties =
        MessageProperties.PERSISTENT_BASIC.builder().messageId("m-3").headers(Map.of("n", 1L)).build();
    publish(exchange, "audit.restart", properties, bytes("survivor"));
    Channel other = connection.createChannel();
    String exclusive = other.queueDeclare().getQueue();
    other.queueBind(exclusive, exchange, "order.x.created");
    BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
    other.basicConsume(exclusive, true, (t, delivery) -> deliveries.add(delivery), t -> {});
    Walk.restartBroker();
    next(recovered, "recovery");
    BasicProperties got = getBack(bytes("survivor")).getProps();
    equal(got.getMessageId() + " " + got.getHeaders() + " " + got.getDeliveryMode(), "m-3 {n=1} 2", "properties");
    // The channel is in confirm mode again, and the durable binding has survived.
    publish(exchange, "order.x.created", MessageProperties.PERSISTENT_BASIC, bytes("routed"));
    getBack(bytes("routed"));
    equal(text(next(deliveries, "delivery to the recovered consumer").getBody()), "routed", "delivery");
  }

  private void delete() throws Exception {
    send(bytes("left behind"));
    equal(channel.queueDelete(queue).getMessageCount(), 1, "delete-ok's message count");
    channel.exchangeDelete(exchange);
    wantClose(() -> channel.exchangeDeclarePassive(exchange), 404, "NOT_FOUND - no exchange '" + exchange + "'");
    connection.close();
    try {
      connection.createChannel();
      throw new IllegalStateException("the closed connection opened a channel");
    } catch (AlreadyClosedException e) {
      // As it should be.
    }
  }
}
