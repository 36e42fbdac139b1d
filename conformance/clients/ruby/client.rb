# frozen_string_literal: true

# Conformance program of bunny, as Debian packages it.
#
# The contract is in the README one folder up: AMQP_URI, COMPAT and RESTART come
# from the environment, one line is printed a step, the first failure ends the
# program with exit code 1.

require "bigdecimal"
require "bunny"
require "timeout"

# Bounds each wait for something that the broker is to send; seconds.
PATIENCE = 30
MIB = 1 << 20

def check(condition, what)
  raise what unless condition
end

def equal(got, want, what)
  check(got == want, "#{what} is #{got.inspect}, want #{want.inspect}")
end

# The next thing that a callback put into the queue.
def take(queue, what)
  Timeout.timeout(PATIENCE, nil, "no #{what} in #{PATIENCE} s") { queue.pop }
end

# A body that differs from itself at each shift up to 251 bytes.
def pattern(size)
  unit = (0...251).map(&:chr).join.b
  (unit * (size / 251 + 1)).byteslice(0, size)
end

# One walk through the steps; each builds on the state of those before.
class Program
  def initialize
    @uri = ENV.fetch("AMQP_URI")
    @compat = ENV.fetch("COMPAT")
    @restart = ENV.fetch("RESTART")
    check(%w[3 4].include?(@compat), "COMPAT is #{@compat}, want 3 or 4")
    prefix = "clients.bunny.#{Process.pid}.#{(Time.now.to_f * 1e6).to_i}"
    @exchange_name = "#{prefix}.exchange"
    @queue_name = "#{prefix}.queue"
    @recovered = Queue.new
  end

  def connect
    @connection = Bunny.new(@uri, automatically_recover: true, network_recovery_interval: 0.5,
                                  recovery_completed: -> { @recovered << true }, logger: Logger.new($stderr, level: Logger::ERROR))
    @connection.start
    capabilities = @connection.server_properties.fetch("capabilities")
    %w[publisher_confirms basic.nack consumer_cancel_notify].each do |name|
      equal(capabilities[name], true, "capability #{name}")
    end
    open_channel
  end

  # A channel in confirm mode, with queue and exchange as seen through it.
  def open_channel
    @channel = @connection.create_channel
    @channel.confirm_select
  end

  def declare
    2.times do # the second time the same arguments must be accepted
      look_up
      status = @queue.status
      equal([status[:message_count], status[:consumer_count]], [0, 0], "declare-ok")
    end
    named = @channel.queue("", exclusive: true)
    check(named.name.start_with?("amq.gen-"), "server-named queue is called #{named.name}")
  end

  # Declares exchange and queue on the current channel.
  def look_up
    @exchange = @channel.topic(@exchange_name, durable: true)
    @queue = @channel.queue(@queue_name, durable: true)
  end

  def bind
    ["order.*.created", "audit.#", "gone.#"].each { |key| @queue.bind(@exchange, routing_key: key) }
    @queue.unbind(@exchange, routing_key: "gone.#")
  end

  def want_depth(depth)
    equal(@queue.message_count, depth, "queue depth")
  end

  # Publishes one message and waits for its confirm.
  def publish(body, to: @channel.default_exchange, key: @queue_name, **options)
    to.publish(body, routing_key: key, persistent: true, **options)
    check(@channel.wait_for_confirms, "the broker nacked the message")
  end

  def get_back(body)
    delivery, properties, got = @queue.pop
    check(delivery, "get found no message")
    check(got.b == body.b, "got a body of #{got.bytesize} bytes that differs from the #{body.bytesize} sent")
    properties
  end

  def publish_confirm
    100.times { |i| @exchange.publish("order #{i}", routing_key: "order.#{i}.created", persistent: true) }
    @exchange.publish("order 100", routing_key: "order.100.paid", persistent: true) # no binding matches
    check(@channel.wait_for_confirms, "the broker nacked a message")
    want_depth(100)
  end

  # Subscribes with acks by hand and yields the deliveries' queue.
  def consuming(prefetch)
    @channel.prefetch(prefetch)
    inbox = Queue.new
    consumer = @queue.subscribe(manual_ack: true) { |*delivery| inbox << delivery }
    yield inbox
    consumer.cancel
    want_depth(0)
  end

  def consume_ack
    consuming(10) do |inbox|
      100.times do |i|
        delivery, _, body = take(inbox, "delivery")
        equal([body, delivery.redelivered?, delivery.exchange], ["order #{i}", false, @exchange_name], "delivery #{i}")
        @channel.ack(delivery.delivery_tag, true) if i % 10 == 9 # the full window at once
      end
    end
  end

  def nack_requeue
    %w[back away kept].each { |body| publish(body) }
    consuming(1) do |inbox|
      [
        ["back", false, ->(tag) { @channel.nack(tag, false, true) }],
        ["back", true, ->(tag) { @channel.ack(tag) }],
        ["away", false, ->(tag) { @channel.reject(tag, false) }],
        ["kept", false, ->(tag) { @channel.ack(tag) }]
      ].each do |body, redelivered, settle|
        delivery, _, got = take(inbox, "delivery")
        equal([got, delivery.redelivered?], [body, redelivered], "delivery")
        settle.call(delivery.delivery_tag)
      end
    end
  end

  def get
    publish("first")
    publish("second")
    delivery, _, body = @queue.pop(manual_ack: true)
    equal([body, delivery.redelivered?], ["first", false], "get-ok") # bunny hides its message count
    @channel.ack(delivery.delivery_tag)
    get_back("second")
    equal(@queue.pop, [nil, nil, nil], "get on the empty queue")
  end

  def mandatory_return
    returns = Queue.new
    @exchange.on_return { |*returned| returns << returned }
    publish("undeliverable", to: @exchange, key: "nowhere", mandatory: true, message_id: "m-1", headers: { "k" => "v" })
    check(!returns.empty?, "confirmed, but not returned before")
    info, properties, body = returns.pop
    equal([info.reply_code, info.reply_text, info.exchange, info.routing_key],
          [312, "NO_ROUTE", @exchange_name, "nowhere"], "return")
    equal([body, properties[:message_id], properties[:headers]], ["undeliverable", "m-1", { "k" => "v" }],
          "returned message")
  end

  # Each field type that the library writes: S l f d t T V D, A and F. It writes
  # decimals right only without a fraction, and no 32 bit floats within arrays.
  def headers
    fields = {
      "int" => -64_000_000_000_000, "small" => 7, "double" => -2.25, "yes" => true, "no" => false,
      "string" => "snöwman ☃", "empty" => "", "time" => Time.at(1_700_000_000), "none" => nil,
      "decimal" => BigDecimal("314")
    }
    array = [1, "two", false, nil, { "deep" => [3] }]
    sent = fields.merge("float" => AMQ::Protocol::Float32Bit.new(0.5), "table" => fields, "array" => array)
    options = {
      content_type: "application/json", content_encoding: "identity", priority: 7, correlation_id: "c-1",
      reply_to: "replies", message_id: "m-2", timestamp: 1_600_000_000, type: "kind", app_id: "conformance"
    }
    publish("{}", headers: sent, **options)
    got = get_back("{}")
    want = sent.merge("float" => 0.5)
    want.each { |key, value| equal(plain(got[:headers][key]), value, "header #{key}") }
    equal(got[:headers].size, want.size, "number of headers")
    options.merge(timestamp: Time.at(1_600_000_000), delivery_mode: 2).each { |key, value| equal(got[key], value, key) }
  end

  # The value with its strings marked as what they are; bunny hands out raw bytes.
  def plain(value)
    case value
    when String then value.dup.force_encoding(Encoding::UTF_8)
    when Hash then value.transform_values { |v| plain(v) }
    when Array then value.map { |v| plain(v) }
    else value
    end
  end

  def body_12mib
    body = pattern(12 * MIB)
    publish(body)
    get_back(body)
  end

  def body_20mib
    body = pattern(20 * MIB)
    if @compat == "3"
      publish(body)
      get_back(body)
      return
    end
    other = @connection.create_channel
    other.default_exchange.publish(body, routing_key: @queue_name)
    begin
      other.prefetch(1) # publish has no reply, so bunny tells by way of the next call
      raise "the oversized message was taken"
    rescue Bunny::PreconditionFailed, Bunny::ChannelAlreadyClosed => e
      text = "PRECONDITION_FAILED - message size 20971520 is larger than configured max size 16777216"
      check(e.message.include?(text), e.message)
    end
    want_depth(0) # the other channel and the connection still work
  end

  def channel_error
    other = @connection.create_channel
    begin
      other.queue("#{@queue_name}.absent", passive: true)
      raise "the absent queue was found"
    rescue Bunny::NotFound => e
      check(e.message.start_with?("NOT_FOUND - no queue '#{@queue_name}.absent'"), e.message)
    end
    check(other.closed? && @channel.open? && @connection.open?, "more than one channel closed")
    open_channel
    look_up
    publish("after the error")
    get_back("after the error")
  end

  # The library brings connection, channels and a consumer on an exclusive queue
  # back by itself.
  def restart
    publish("survivor", to: @exchange, key: "audit.restart", message_id: "m-3", headers: { "n" => 1 })
    inbox = Queue.new
    exclusive = @channel.queue("#{@queue_name}.exclusive", exclusive: true)
    exclusive.bind(@exchange, routing_key: "order.x.created")
    exclusive.subscribe { |*delivery| inbox << delivery }
    check(system(@restart, out: File::NULL), "the broker did not restart")
    take(@recovered, "recovery")
    properties = get_back("survivor")
    equal([properties[:message_id], properties[:headers], properties[:delivery_mode]], ["m-3", { "n" => 1 }, 2],
          "properties after the restart")
    publish("routed", to: @exchange, key: "order.x.created") # the binding must have survived too
    get_back("routed")
    equal(take(inbox, "delivery to the recovered consumer")[2], "routed", "recovered delivery")
  end

  def delete
    publish("left behind")
    equal(@queue.delete.message_count, 1, "delete-ok's message count")
    @exchange.delete
    begin
      @channel.exchange(@exchange_name, type: "topic", passive: true)
      raise "the deleted exchange is still there"
    rescue Bunny::NotFound => e
      check(e.message.start_with?("NOT_FOUND - no exchange '#{@exchange_name}'"), e.message)
    end
    @connection.close
  end
end

STEPS = {
  "connect" => :connect, "declare" => :declare, "bind" => :bind, "publish-confirm" => :publish_confirm,
  "consume-ack" => :consume_ack, "nack-requeue" => :nack_requeue, "get" => :get,
  "mandatory-return" => :mandatory_return, "headers" => :headers, "body-12MiB" => :body_12mib,
  "body-20MiB" => :body_20mib, "channel-error" => :channel_error, "restart" => :restart, "delete" => :delete
}.freeze

$stdout.sync = true
puts "client bunny #{Bunny::VERSION}"
program = Program.new
STEPS.each do |name, step|
  program.public_send(step)
  puts "ok #{name}"
rescue StandardError => e
  puts "FAIL #{name}: #{e.class}: #{e.message.gsub(/\s+/, ' ')}"
  warn e.full_message
  exit! 1 # bunny's threads must not keep a failed program alive
end
