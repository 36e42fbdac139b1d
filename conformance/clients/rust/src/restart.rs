//! The step that restarts the broker.

use crate::program::{check, equal, Program, Result};
use futures_lite::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, ConnectionProperties, Consumer};
use std::time::Duration;

impl Program {
    /// Leaves a persistent message behind and restarts the broker. The library must
    /// bring back a consumer on an exclusive queue, which went with its connection,
    /// and a new connection must find the message and the binding.
    pub async fn restart(&mut self) -> Result {
        let mut headers = FieldTable::default();
        headers.insert("n".into(), AMQPValue::LongLongInt(1));
        let properties = BasicProperties::default()
            .with_message_id("m-3".into())
            .with_headers(headers);
        self.publish(self.exchange.as_str(), "audit.restart", b"survivor", properties.clone())
            .await?;

        let recovering = self.connect_recovering().await?;
        let mut deliveries = self.subscribe_exclusive(&recovering).await?;
        let status = tokio::process::Command::new("sh")
            .arg("-c")
            .arg(&self.restart_command)
            .status()
            .await?;
        check(status.success(), || format!("the restart command ended with {status}"))?;

        check(!self.channel().status().connected(), || {
            "the connection outlived the restart".into()
        })?;
        self.connect().await?;
        let survivor = self.get_back(b"survivor").await?;
        equal(
            survivor.properties,
            properties.with_delivery_mode(2),
            "properties after the restart",
        )?;
        self.recovered_delivery(&mut deliveries).await?;
        Ok(recovering.close(200, "done".into()).await?)
    }

    async fn connect_recovering(&self) -> Result<Connection> {
        let properties = ConnectionProperties::default()
            .enable_auto_recover()
            .configure_backoff(|backoff| {
                backoff
                    .with_min_delay(Duration::from_millis(200))
                    .with_max_delay(Duration::from_secs(1))
                    .with_max_times(60)
            });
        Ok(Connection::connect(&self.uri, properties).await?)
    }

    /// Consumes from a queue that only this connection may use.
    async fn subscribe_exclusive(&self, connection: &Connection) -> Result<Consumer> {
        let channel = connection.create_channel().await?;
        let name = format!("{}.exclusive", self.queue);
        let options = QueueDeclareOptions {
            exclusive: true,
            ..Default::default()
        };
        channel
            .queue_declare(name.as_str().into(), options, FieldTable::default())
            .await?;
        let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
        let exchange = self.exchange.clone();
        channel
            .queue_bind(
                name.as_str().into(),
                exchange,
                "order.x.created".into(),
                options,
                arguments,
            )
            .await?;
        let options = BasicConsumeOptions {
            no_ack: true,
            ..Default::default()
        };
        Ok(channel
            .basic_consume(name.as_str().into(), "recovered".into(), options, FieldTable::default())
            .await?)
    }

    /// Publishes by the durable binding until the recovered consumer gets a message:
    /// its stream reports the loss of the connection, but not its return.
    async fn recovered_delivery(&self, deliveries: &mut Consumer) -> Result {
        for _ in 0..100 {
            self.publish(
                self.exchange.as_str(),
                "order.x.created",
                b"routed",
                BasicProperties::default(),
            )
            .await?;
            self.get_back(b"routed").await?;
            match tokio::time::timeout(Duration::from_millis(300), deliveries.next()).await {
                Ok(Some(Ok(delivery))) => return equal(delivery.data.as_slice(), b"routed", "recovered delivery"),
                Ok(None) => return Err("the recovered consumer ended".into()),
                Ok(Some(Err(_))) | Err(_) => {} // still recovering
            }
        }
        Err("the consumer was not recovered".into())
    }
}
