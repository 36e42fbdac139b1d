//! The steps that one connection takes, each building on the state of those before.

use futures_lite::StreamExt;
use lapin::message::Delivery;
use lapin::options::*;
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ErrorKind, ExchangeKind};
use std::fmt::Debug;

pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Fails unless the condition holds.
pub fn check(condition: bool, what: impl FnOnce() -> String) -> Result {
    if condition {
        Ok(())
    } else {
        Err(what().into())
    }
}

/// Fails unless both are equal.
pub fn equal<T: PartialEq + Debug>(got: T, want: T, what: &str) -> Result {
    check(got == want, || format!("{what} is {got:?}, want {want:?}"))
}

/// Fails unless the broker closed the channel with this code and text (its beginning).
pub fn want_close<T: Debug>(outcome: lapin::Result<T>, code: u16, text: &str) -> Result {
    let error = match outcome {
        Ok(value) => return Err(format!("got {value:?}, want error {code}").into()),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::ProtocolError(e) if e.get_id() == code && e.get_message().as_str().starts_with(text) => Ok(()),
        other => Err(format!("got {other:?}, want error {code} {text}").into()),
    }
}

#[derive(Clone, Copy)]
pub enum Step {
    Connect,
    Declare,
    Bind,
    PublishConfirm,
    ConsumeAck,
    NackRequeue,
    Get,
    MandatoryReturn,
    Headers,
    Body12MiB,
    Body20MiB,
    ChannelError,
    Restart,
    Delete,
}

impl Step {
    pub const ALL: [Step; 14] = [
        Step::Connect,
        Step::Declare,
        Step::Bind,
        Step::PublishConfirm,
        Step::ConsumeAck,
        Step::NackRequeue,
        Step::Get,
        Step::MandatoryReturn,
        Step::Headers,
        Step::Body12MiB,
        Step::Body20MiB,
        Step::ChannelError,
        Step::Restart,
        Step::Delete,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Step::Connect => "connect",
            Step::Declare => "declare",
            Step::Bind => "bind",
            Step::PublishConfirm => "publish-confirm",
            Step::ConsumeAck => "consume-ack",
            Step::NackRequeue => "nack-requeue",
            Step::Get => "get",
            Step::MandatoryReturn => "mandatory-return",
            Step::Headers => "headers",
            Step::Body12MiB => "body-12MiB",
            Step::Body20MiB => "body-20MiB",
            Step::ChannelError => "channel-error",
            Step::Restart => "restart",
            Step::Delete => "delete",
        }
    }
}

pub struct Program {
    pub uri: String,
    pub restart_command: String,
    pub profile4: bool,
    pub exchange: ShortString,
    pub queue: ShortString,
    connection: Option<Connection>,
    channel: Option<Channel>,
}

impl Program {
    /// Reads what the driver says in the environment.
    pub fn new() -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} must be set"));
        let compat = variable("COMPAT");
        assert!(["3", "4"].contains(&compat.as_str()), "COMPAT is {compat}, want 3 or 4");
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("a clock after 1970");
        let prefix = format!("clients.lapin.{}.{}", std::process::id(), now.as_nanos());
        Program {
            uri: variable("AMQP_URI"),
            restart_command: variable("RESTART"),
            profile4: compat == "4",
            exchange: format!("{prefix}.exchange").into(),
            queue: format!("{prefix}.queue").into(),
            connection: None,
            channel: None,
        }
    }

    pub async fn take(&mut self, step: Step) -> Result {
        match step {
            Step::Connect => self.connect().await,
            Step::Declare => self.declare().await,
            Step::Bind => self.bind().await,
            Step::PublishConfirm => self.publish_confirm().await,
            Step::ConsumeAck => self.consume_ack().await,
            Step::NackRequeue => self.nack_requeue().await,
            Step::Get => self.get().await,
            Step::MandatoryReturn => self.mandatory_return().await,
            Step::Headers => self.headers().await,
            Step::Body12MiB => self.body_12mib().await,
            Step::Body20MiB => self.body_20mib().await,
            Step::ChannelError => self.channel_error().await,
            Step::Restart => self.restart().await,
            Step::Delete => self.delete().await,
        }
    }

    pub fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("connected by the first step")
    }

    pub fn channel(&self) -> &Channel {
        self.channel.as_ref().expect("opened by the first step")
    }

    pub async fn connect(&mut self) -> Result {
        let properties = ConnectionProperties::default().with_connection_name("conformance-lapin".into());
        self.connection = Some(Connection::connect(&self.uri, properties).await?);
        check(self.connection().configuration().channel_max() > 0, || {
            "no channel may be opened".into()
        })?;
        self.open_channel().await
    }

    /// A new channel, in confirm mode.
    async fn open_channel(&mut self) -> Result {
        let channel = self.connection().create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        self.channel = Some(channel);
        Ok(())
    }

    async fn declare(&mut self) -> Result {
        let channel = self.channel();
        for _ in 0..2 {
            // The second time the same arguments must be accepted.
            let options = ExchangeDeclareOptions {
                durable: true,
                ..Default::default()
            };
            channel
                .exchange_declare(
                    self.exchange.clone(),
                    ExchangeKind::Topic,
                    options,
                    FieldTable::default(),
                )
                .await?;
            let options = QueueDeclareOptions {
                durable: true,
                ..Default::default()
            };
            let queue = channel
                .queue_declare(self.queue.clone(), options, FieldTable::default())
                .await?;
            equal(
                (queue.name(), queue.message_count(), queue.consumer_count()),
                (&self.queue, 0, 0),
                "declare-ok",
            )?;
        }
        let options = QueueDeclareOptions {
            exclusive: true,
            ..Default::default()
        };
        let named = channel.queue_declare("".into(), options, FieldTable::default()).await?;
        check(named.name().as_str().starts_with("amq.gen-"), || {
            format!("server-named queue is called {}", named.name())
        })
    }

    async fn bind(&mut self) -> Result {
        let (queue, exchange) = (&self.queue, &self.exchange);
        for key in ["order.*.created", "audit.#", "gone.#"] {
            let options = QueueBindOptions::default();
            let arguments = FieldTable::default();
            self.channel()
                .queue_bind(queue.clone(), exchange.clone(), key.into(), options, arguments)
                .await?;
        }
        let arguments = FieldTable::default();
        Ok(self
            .channel()
            .queue_unbind(queue.clone(), exchange.clone(), "gone.#".into(), arguments)
            .await?)
    }

    pub async fn want_depth(&self, depth: u32) -> Result {
        let options = QueueDeclareOptions {
            passive: true,
            ..Default::default()
        };
        let queue = self
            .channel()
            .queue_declare(self.queue.clone(), options, FieldTable::default())
            .await?;
        equal(queue.message_count(), depth, "queue depth")
    }

    /// Publishes one mandatory message and waits for its confirm; a return fails.
    pub async fn publish(&self, exchange: &str, key: &str, body: &[u8], properties: BasicProperties) -> Result {
        let options = BasicPublishOptions {
            mandatory: true,
            ..Default::default()
        };
        let properties = properties.with_delivery_mode(2);
        let confirm = self
            .channel()
            .basic_publish(exchange.into(), key.into(), options, body, properties)
            .await?
            .await?;
        equal(confirm, Confirmation::Ack(None), "confirm")
    }

    /// Publishes one message to the queue.
    async fn send(&self, body: &[u8]) -> Result {
        self.publish("", self.queue.as_str(), body, BasicProperties::default())
            .await
    }

    /// Takes the queue's only message and compares its body.
    pub async fn get_back(&self, body: &[u8]) -> Result<Delivery> {
        let options = BasicGetOptions { no_ack: true };
        let got = self
            .channel()
            .basic_get(self.queue.clone(), options)
            .await?
            .ok_or("get found no message")?;
        check(got.data == body, || {
            format!("got {} bytes that differ from the {} sent", got.data.len(), body.len())
        })?;
        equal(got.message_count, 0, "get-ok's message count")?;
        Ok(got.delivery)
    }

    pub async fn there_and_back(&self, body: &[u8]) -> Result {
        self.send(body).await?;
        self.get_back(body).await.map(drop)
    }

    async fn publish_confirm(&mut self) -> Result {
        let mut confirms = Vec::new();
        for i in 0..101 {
            // The last one matches no binding, and is confirmed too.
            let key = if i < 100 {
                format!("order.{i}.created")
            } else {
                "order.100.paid".into()
            };
            let options = BasicPublishOptions::default();
            let properties = BasicProperties::default().with_delivery_mode(2);
            let body = format!("order {i}");
            let exchange = self.exchange.clone();
            confirms.push(
                self.channel()
                    .basic_publish(exchange, key.into(), options, body.as_bytes(), properties)
                    .await?,
            );
        }
        for confirm in confirms {
            equal(confirm.await?, Confirmation::Ack(None), "confirm")?;
        }
        self.want_depth(100).await
    }

    async fn consume(&self, tag: &str, prefetch: u16) -> Result<lapin::Consumer> {
        self.channel().basic_qos(prefetch, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        Ok(self
            .channel()
            .basic_consume(self.queue.clone(), tag.into(), options, FieldTable::default())
            .await?)
    }

    async fn consume_ack(&mut self) -> Result {
        let mut deliveries = self.consume("acker", 10).await?;
        for i in 0..100 {
            let delivery = deliveries.next().await.ok_or("the consumer ended")??;
            equal(delivery.data.as_slice(), format!("order {i}").as_bytes(), "delivery")?;
            equal(
                (delivery.redelivered, &delivery.exchange),
                (false, &self.exchange),
                "delivery",
            )?;
            if i % 10 == 9 {
                delivery.ack(BasicAckOptions { multiple: true }).await?; // the full window at once
            }
        }
        self.channel()
            .basic_cancel("acker".into(), BasicCancelOptions::default())
            .await?;
        self.want_depth(0).await
    }

    async fn nack_requeue(&mut self) -> Result {
        for body in ["back", "away", "kept"] {
            self.send(body.as_bytes()).await?;
        }
        let mut deliveries = self.consume("nacker", 1).await?;
        for (body, redelivered) in [("back", false), ("back", true), ("away", false), ("kept", false)] {
            let delivery = deliveries.next().await.ok_or("the consumer ended")??;
            equal(
                (delivery.data.as_slice(), delivery.redelivered),
                (body.as_bytes(), redelivered),
                "delivery",
            )?;
            match (body, redelivered) {
                ("back", false) => {
                    delivery
                        .nack(BasicNackOptions {
                            multiple: false,
                            requeue: true,
                        })
                        .await?
                }
                ("away", _) => delivery.reject(BasicRejectOptions { requeue: false }).await?,
                _ => delivery.ack(BasicAckOptions::default()).await?,
            };
        }
        self.channel()
            .basic_cancel("nacker".into(), BasicCancelOptions::default())
            .await?;
        self.want_depth(0).await
    }

    async fn get(&mut self) -> Result {
        self.send(b"first").await?;
        self.send(b"second").await?;
        let got = self
            .channel()
            .basic_get(self.queue.clone(), BasicGetOptions::default())
            .await?;
        let got = got.ok_or("get found no message")?;
        equal(
            (got.data.as_slice(), got.message_count, got.redelivered),
            (b"first".as_slice(), 1, false),
            "get-ok",
        )?;
        got.ack(BasicAckOptions::default()).await?;
        self.get_back(b"second").await?;
        let empty = self
            .channel()
            .basic_get(self.queue.clone(), BasicGetOptions::default())
            .await?;
        check(empty.is_none(), || format!("get on the empty queue found {empty:?}"))
    }

    async fn channel_error(&mut self) -> Result {
        let other = self.connection().create_channel().await?;
        let absent = format!("{}.absent", self.queue);
        let options = QueueDeclareOptions {
            passive: true,
            ..Default::default()
        };
        let outcome = other
            .queue_declare(absent.as_str().into(), options, FieldTable::default())
            .await;
        want_close(outcome, 404, &format!("NOT_FOUND - no queue '{absent}'"))?;
        let states = (
            other.status().connected(),
            self.channel().status().connected(),
            self.connection().status().connected(),
        );
        equal(
            states,
            (false, true, true),
            "channel, other channel and connection are open",
        )?;
        self.open_channel().await?;
        self.there_and_back(b"after the error").await
    }

    async fn delete(&mut self) -> Result {
        self.send(b"left behind").await?;
        let messages = self
            .channel()
            .queue_delete(self.queue.clone(), QueueDeleteOptions::default())
            .await?;
        equal(messages, 1, "delete-ok's message count")?;
        self.channel()
            .exchange_delete(self.exchange.clone(), ExchangeDeleteOptions::default())
            .await?;
        let options = ExchangeDeclareOptions {
            passive: true,
            ..Default::default()
        };
        let gone = self.exchange.clone();
        let outcome = self
            .channel()
            .exchange_declare(gone, ExchangeKind::Topic, options, FieldTable::default())
            .await;
        want_close(outcome, 404, &format!("NOT_FOUND - no exchange '{}'", self.exchange))?;
        Ok(self.connection().close(200, "done".into()).await?)
    }
}
