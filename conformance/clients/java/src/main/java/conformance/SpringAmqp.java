package conformance;

import static conformance.Walk.check;
import static conformance.Walk.equal;
import static conformance.Walk.next;

import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageBuilder;
import org.springframework.amqp.core.MessageDeliveryMode;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.adapter.MessageListenerAdapter;

/**
 * Conformance program of Spring AMQP: RabbitAdmin, RabbitTemplate (confirms, returns, RPC) and a
 * listener container, through a broker restart.
 */
final class SpringAmqp {
  private final String exchange;
  private final String queue;
  private final String rpcQueue;
  private final BlockingQueue<String> heard = new LinkedBlockingQueue<>();
  private CachingConnectionFactory factory;
  private RabbitAdmin admin;
  private RabbitTemplate template;
  private SimpleMessageListenerContainer listener;
  private SimpleMessageListenerContainer server;

  private SpringAmqp() {
    String prefix = Walk.prefix("spring");
    exchange = prefix + ".exchange";
    queue = prefix + ".queue";
    rpcQueue = prefix + ".rpc";
  }

  public static void main(String[] arguments) {
    SpringAmqp s = new SpringAmqp();
    String version = RabbitTemplate.class.getPackage().getImplementationVersion();
    new Walk()
        .step("connect", s::connect)
        .step("declare", s::declare)
        .step("confirm", s::confirm)
        .step("return", s::returned)
        .step("receive", s::receive)
        .step("listener", s::listen)
        .step("requeue", s::requeue)
        .step("rpc", s::rpc)
        .step("rpc-reply-queue", s::rpcOverReplyQueue)
        .step("restart", s::restart)
        .step("delete", s::delete)
        .run("spring-rabbit", version == null ? "unknown" : version);
  }

  private void connect() {
    factory = new CachingConnectionFactory(URI.create(Walk.URI));
    factory.setPublisherConfirmType(CachingConnectionFactory.ConfirmType.CORRELATED);
    factory.setPublisherReturns(true);
    admin = new RabbitAdmin(factory);
    template = new RabbitTemplate(factory);
    template.setMandatory(true);
    template.setReplyTimeout(Walk.PATIENCE.toMillis());
    factory.createConnection();
  }

  private void declare() {
    Queue durable = new Queue(queue);
    TopicExchange topic = new TopicExchange(exchange);
    Binding binding = BindingBuilder.bind(durable).to(topic).with("order.#");
    admin.declareExchange(topic);
    equal(admin.declareQueue(durable), queue, "declared name");
    admin.declareQueue(new Queue(rpcQueue));
    admin.declareBinding(binding);
    equal(admin.getQueueInfo(queue).getMessageCount(), 0L, "messages");
  }

  /** Publishes one message and waits for its confirm; the correlation holds a return, if any. */
  private CorrelationData publish(String key, String body) throws Exception {
    Message message =
        MessageBuilder.withBody(body.getBytes(StandardCharsets.UTF_8))
            .setContentType("text/plain")
            .setDeliveryMode(MessageDeliveryMode.PERSISTENT)
            .setHeader("n", 1L)
            .build();
    CorrelationData correlation = new CorrelationData(body);
    template.send(exchange, key, message, correlation);
    var confirm = correlation.getFuture().get(Walk.PATIENCE.toSeconds(), TimeUnit.SECONDS);
    check(confirm.ack(), "the broker nacked " + body + ": " + confirm.reason());
    return correlation;
  }

  private void confirm() throws Exception {
    for (int i = 0; i < 20; i++) {
      equal(publish("order." + i, "order " + i).getReturned(), null, "return");
    }
    equal(admin.getQueueInfo(queue).getMessageCount(), 20L, "messages");
  }

  private void returned() throws Exception {
    var returned = publish("nowhere", "undeliverable").getReturned();
    check(returned != null, "confirmed, but not returned before");
    equal(returned.getReplyCode() + " " + returned.getReplyText(), "312 NO_ROUTE", "return");
    equal(returned.getExchange() + " " + returned.getRoutingKey(), exchange + " nowhere", "return");
    equal(new String(returned.getMessage().getBody(), StandardCharsets.UTF_8), "undeliverable", "body");
  }

  private void receive() {
    Message message = template.receive(queue);
    check(message != null, "receive found no message");
    equal(new String(message.getBody(), StandardCharsets.UTF_8), "order 0", "body");
    equal(message.getMessageProperties().getHeaders().get("n"), 1L, "header n");
  }

  private static SimpleMessageListenerContainer container(
      CachingConnectionFactory factory, String queue, Object listener) {
    SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(factory);
    container.setQueueNames(queue);
    container.setConcurrentConsumers(1);
    container.setPrefetchCount(5);
    container.setRecoveryInterval(500);
    container.setShutdownTimeout(5000);
    container.setMessageListener(new MessageListenerAdapter(listener, "handle"));
    container.afterPropertiesSet();
    container.start();
    return container;
  }

  /** Notes what it hears; the first time it hears "again" it throws, which requeues the message. */
  public final class Listener {
    private boolean thrown;

    public void handle(String body) {
      heard.add(body);
      if (body.equals("again") && !thrown) {
        thrown = true;
        throw new IllegalStateException("refused once, on purpose");
      }
    }
  }

  private void listen() throws Exception {
    listener = container(factory, queue, new Listener());
    for (int i = 1; i < 20; i++) {
      equal(next(heard, "message"), "order " + i, "message");
    }
  }

  private void requeue() throws Exception {
    publish("order.again", "again");
    equal(next(heard, "message"), "again", "message");
    equal(next(heard, "requeued message"), "again", "requeued message");
  }

  /** Answers a request. */
  public static final class Server {
    public String handle(String request) {
      return "reply to " + request;
    }
  }

  /**
   * RPC as the template does it by default: over amq.rabbitmq.reply-to where the broker has it, else
   * over a reply queue for each call.
   */
  private void rpc() {
    server = container(factory, rpcQueue, new Server());
    for (int i = 0; i < 10; i++) {
      equal(template.convertSendAndReceive("", rpcQueue, "call " + i), "reply to call " + i, "reply");
    }
  }

  /** RPC over an exclusive reply queue for each call, whatever the broker has. */
  private void rpcOverReplyQueue() {
    RabbitTemplate temporary = new RabbitTemplate(factory);
    temporary.setUseTemporaryReplyQueues(true);
    temporary.setReplyTimeout(Walk.PATIENCE.toMillis());
    for (int i = 0; i < 3; i++) {
      equal(temporary.convertSendAndReceive("", rpcQueue, "call " + i), "reply to call " + i, "reply");
    }
  }

  /** The containers and the template go on by themselves, and a persistent message is kept. */
  private void restart() throws Exception {
    listener.stop();
    publish("order.kept", "survivor");
    Walk.restartBroker();
    listener.start();
    equal(next(heard, "message of before the restart"), "survivor", "message");
    publish("order.new", "after the restart");
    equal(next(heard, "message"), "after the restart", "message");
    equal(template.convertSendAndReceive("", rpcQueue, "call"), "reply to call", "reply");
  }

  private void delete() {
    listener.stop();
    server.stop();
    equal(admin.getQueueInfo(queue).getMessageCount(), 0L, "messages");
    check(admin.deleteQueue(queue), "the queue was not deleted");
    check(admin.deleteQueue(rpcQueue), "the RPC queue was not deleted");
    check(admin.deleteExchange(exchange), "the exchange was not deleted");
    equal(admin.getQueueInfo(queue), null, "the deleted queue");
    factory.destroy();
  }
}
