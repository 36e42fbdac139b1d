//! The steps about what a message carries: returned whole, all properties, large bodies.

use crate::program::{check, equal, want_close, Program, Result};
use lapin::options::*;
use lapin::types::{AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable};
use lapin::BasicProperties;

const MIB: usize = 1 << 20;

/// A body that differs from itself at each shift up to 251 bytes.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i % 251) as u8).collect()
}

impl Program {
    pub async fn mandatory_return(&mut self) -> Result {
        let mut headers = FieldTable::default();
        headers.insert("k".into(), AMQPValue::LongString("v".into()));
        let properties = BasicProperties::default()
            .with_message_id("m-1".into())
            .with_headers(headers.clone());
        let options = BasicPublishOptions {
            mandatory: true,
            ..Default::default()
        };
        let exchange = self.exchange.clone();
        let confirm = self
            .channel()
            .basic_publish(exchange, "nowhere".into(), options, b"undeliverable", properties)
            .await?
            .await?;
        check(confirm.is_ack(), || format!("confirm is {confirm:?}"))?;
        let returned = confirm.take_message().ok_or("confirmed, but not returned before")?;
        equal(
            (returned.reply_code, returned.reply_text.as_str()),
            (312, "NO_ROUTE"),
            "return",
        )?;
        equal(
            (&returned.exchange, returned.routing_key.as_str()),
            (&self.exchange, "nowhere"),
            "return",
        )?;
        equal(returned.data.as_slice(), b"undeliverable", "returned body")?;
        equal(
            returned.properties.message_id(),
            &Some("m-1".into()),
            "returned message id",
        )?;
        equal(returned.properties.headers(), &Some(headers), "returned headers")
    }

    /// Each field type that the library writes, but the short string, which RabbitMQ
    /// does not know: t b B s u I i l f d D S T x V, A and F.
    pub async fn headers(&mut self) -> Result {
        let fields = || {
            let mut table = FieldTable::default();
            for (name, value) in [
                ("yes", AMQPValue::Boolean(true)),
                ("no", AMQPValue::Boolean(false)),
                ("int8", AMQPValue::ShortShortInt(-8)),
                ("uint8", AMQPValue::ShortShortUInt(200)),
                ("int16", AMQPValue::ShortInt(-1600)),
                ("uint16", AMQPValue::ShortUInt(60000)),
                ("int32", AMQPValue::LongInt(-320_000)),
                ("uint32", AMQPValue::LongUInt(4_000_000_000)),
                ("int64", AMQPValue::LongLongInt(-64_000_000_000_000)),
                ("float", AMQPValue::Float(0.5)),
                ("double", AMQPValue::Double(-2.25)),
                ("time", AMQPValue::Timestamp(1_700_000_000)),
                (
                    "decimal",
                    AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 31415 }),
                ),
                ("string", AMQPValue::LongString("snöwman ☃".into())),
                ("empty", AMQPValue::LongString("".into())),
                ("bytes", AMQPValue::ByteArray(ByteArray::from(vec![0, 1, 0xfe, 0xff]))),
                ("none", AMQPValue::Void),
            ] {
                table.insert(name.into(), value);
            }
            table
        };
        let mut headers = fields();
        headers.insert("table".into(), AMQPValue::FieldTable(fields()));
        let mut array = FieldArray::default();
        for value in [AMQPValue::LongInt(1), AMQPValue::Void, AMQPValue::FieldTable(fields())] {
            array.push(value);
        }
        headers.insert("array".into(), AMQPValue::FieldArray(array));
        let properties = BasicProperties::default()
            .with_headers(headers)
            .with_content_type("application/json".into())
            .with_content_encoding("identity".into())
            .with_delivery_mode(2)
            .with_priority(7)
            .with_correlation_id("c-1".into())
            .with_reply_to("replies".into())
            .with_message_id("m-2".into())
            .with_timestamp(1_600_000_000)
            .with_type("kind".into())
            .with_app_id("conformance".into());
        self.publish("", self.queue.as_str(), b"{}", properties.clone()).await?;
        equal(self.get_back(b"{}").await?.properties, properties, "properties")
    }

    pub async fn body_12mib(&mut self) -> Result {
        self.there_and_back(&pattern(12 * MIB)).await
    }

    pub async fn body_20mib(&mut self) -> Result {
        let body = pattern(20 * MIB);
        if !self.profile4 {
            return self.there_and_back(&body).await;
        }
        let other = self.connection().create_channel().await?;
        other.confirm_select(ConfirmSelectOptions::default()).await?;
        let options = BasicPublishOptions::default();
        let sent = other
            .basic_publish(
                "".into(),
                self.queue.clone(),
                options,
                &body,
                BasicProperties::default(),
            )
            .await;
        // The close may come while the body is being written.
        let outcome = match sent {
            Ok(confirm) => confirm.await,
            Err(error) => Err(error),
        };
        let text = "PRECONDITION_FAILED - message size 20971520 is larger than configured max size 16777216";
        want_close(outcome, 406, text)?;
        self.want_depth(0).await // the other channel and the connection still work
    }
}
