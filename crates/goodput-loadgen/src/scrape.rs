//! Reading the server's own counters while it is under load.

use std::{rc::Rc, time::Duration};

use goodput_record::{EngineSample, Timestamp};
use tokio::task::AbortHandle;

use crate::{client::Client, target::HttpVersion};

/// One look at the server's counters.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// When the answer was there.
    pub at: Timestamp,
    /// The counters that every engine has under some name.
    pub sample: EngineSample,
    /// The whole exposition, as it came.
    pub text: String,
}

impl Scrape {
    /// Name (labels included, where there are any) and value of every gauge and counter.
    /// Histogram buckets and creation times are left out: they are the bulk and no one's question.
    pub fn rows(&self) -> impl Iterator<Item = (String, f64)> {
        goodput_protocol::metrics(&self.text)
            .filter(|m| !m.name.ends_with("_bucket") && !m.name.ends_with("_created"))
            .filter(|m| m.value.is_finite())
            .map(|m| {
                let name = match m.labels {
                    "" => m.name.to_owned(),
                    labels => format!("{}{{{labels}}}", m.name),
                };
                (name, m.value)
            })
    }
}

/// A running scraper; dropped, it stops.
#[derive(Debug)]
pub struct Scraper {
    task: AbortHandle,
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads `/metrics` now and every `every`, over a connection of its own, and hands each look to
/// `on_scrape`. A look that fails is left out: absent is absent.
pub fn scrape(
    client: &Rc<Client>,
    every: Duration,
    replica: u16,
    mut on_scrape: impl FnMut(Scrape) + 'static,
) -> Scraper {
    let client = Rc::clone(client);
    let path = format!("{}/metrics", client.target().endpoint.root());
    let task = tokio::task::spawn_local(async move {
        let mut connection = None;
        let mut due = tokio::time::interval(every);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            due.tick().await;
            let reply = match client.target().http {
                HttpVersion::Http1 => client.fetch_on(&mut connection, &path, None).await,
                HttpVersion::Http2 => client.get(&path).await,
            };
            let Ok(reply) = reply else { continue };
            let at = client.clock().now();
            if reply.head.status == 200
                && let Ok(text) = String::from_utf8(reply.body)
            {
                on_scrape(Scrape {
                    at,
                    sample: goodput_protocol::engine_sample(&text, at, replica),
                    text,
                });
            }
        }
    });
    Scraper {
        task: task.abort_handle(),
    }
}
