//! Conformance program of the Rust client lapin on tokio.
//!
//! The contract is in the README one folder up: AMQP_URI, COMPAT and RESTART come
//! from the environment, one line is printed a step, the first failure ends the
//! program with exit code 1.
//!
//! `main.rs` takes the steps in order, `program.rs` holds those about one connection,
//! `content.rs` those about what a message carries, `restart.rs` the one about a broker
//! restart.

mod content;
mod program;
mod restart;

use program::{Program, Step};
use std::time::Duration;

/// Bounds each step, and with it each wait for something that the broker is to send.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!("client lapin {}", env!("LAPIN_VERSION"));
    let mut program = Program::new();
    for step in Step::ALL {
        let outcome = tokio::time::timeout(PATIENCE, program.take(step)).await;
        let failure = match outcome {
            Ok(Ok(())) => {
                println!("ok {}", step.name());
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not done in {PATIENCE:?}"),
        };
        println!(
            "FAIL {}: {}",
            step.name(),
            failure.split_whitespace().collect::<Vec<_>>().join(" ")
        );
        std::process::exit(1);
    }
}
