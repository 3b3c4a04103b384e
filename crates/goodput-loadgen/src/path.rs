//! The way between client and server: what it carries, asked when no load is on it.
//!
//! A way that is full looks like a server that is full: tokens come later, all latencies grow. But
//! what a server has ready, such as its metrics page, crosses an empty way at the way's own speed.
//! So after the load has ended the page is fetched, once and several times at once, until it has
//! come fast enough to clear the way, or until more at once brings no more.
//!
//! A server that has no such page is asked for something small, with a short address and with a long
//! one: what the long one takes longer is the time of its bytes on the way, whatever the server
//! takes to answer.

use std::{rc::Rc, time::Duration};

use goodput_record::span_of;

use crate::{
    client::Client,
    doubt::{GAP_FLOOR, MOVED_SHARE},
    fetch::Reply,
    invalid::Invalid,
    plan::PointPlan,
    report::PointReport,
};

/// Above this share of what the way carries, what is sent waits for what was sent before.
const FULL: f64 = 0.7;
/// Fetches one at a time, of which the fastest counts: a busy machine delays some.
const ALONE: usize = 5;
/// Then as many at once.
const AT_ONCE: [usize; 4] = [2, 4, 8, 16];
/// More at once brings more, unless it brings less than this factor.
const GROWS: f64 = 1.3;
/// After a shorter window nothing more is asked of the server.
const WORTH_ASKING: Duration = Duration::from_secs(1);
/// Bytes of a long address: half of what the strictest servers take.
const LONG: usize = 4_000;
/// Rounds before which the fastest of either kind is not yet believed.
const ROUNDS_LEAST: usize = 3;
/// So many of them at once.
const LONG_AT_ONCE: usize = 4;
/// The asking ends after this long.
const PATIENCE: Duration = Duration::from_secs(3);

/// How the way to the server is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathProbe {
    /// By a page of some kB that the server has at hand, such as its metrics: an absolute path.
    Page(String),
    /// By long addresses of something small that every server has, such as its list of models: an
    /// absolute path. Tells of the way to the server only, not of the way back.
    Address(String),
}

/// What the way to the server was seen to carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathSeen {
    /// Bytes a second: towards the client, or towards the server where it has no page to fetch.
    pub bytes_s: f64,
    /// Whether that is all it carries; else it is enough, and the asking ended there.
    pub is_limit: bool,
}

/// Bytes a second at which the way is clear for `shares` loads like this one: it is not nearly full, and the bytes of
/// a request cross it in a time that moves no TTFT by more than its share. `None` where nothing was
/// received.
fn enough(report: &PointReport, shares: u16) -> Option<f64> {
    let span = report.span.end.since(report.span.start)?;
    let flow = report.traffic.bytes_received as f64 / span.as_secs_f64().max(1e-3);
    let crossing = request_bytes(report)? / allowed(report)?.as_secs_f64();
    Some((flow * f64::from(shares) / FULL).max(crossing))
}

/// Bytes of a request in the mean.
fn request_bytes(report: &PointReport) -> Option<f64> {
    let sends = report.traffic.sends;
    (sends > 0).then(|| report.traffic.bytes_sent as f64 / sends as f64)
}

/// What the way may add to a TTFT.
fn allowed(report: &PointReport) -> Option<Duration> {
    let ttft = report.latencies.ttft_p50()?;
    Some(ttft.mul_f64(MOVED_SHARE).max(GAP_FLOOR))
}

/// Whether the way that was seen is in the figures of the point.
pub(crate) fn too_narrow(report: &PointReport) -> Option<Invalid> {
    let seen = report.path.filter(|seen| seen.is_limit)?;
    let (span, allowed) = (report.span.end.since(report.span.start)?, allowed(report)?);
    let flow = report.traffic.bytes_received as f64 / span.as_secs_f64().max(1e-3);
    let bytes = request_bytes(report)?;
    let crossing = span_of(bytes / seen.bytes_s.max(1.0));
    let effect = if flow > FULL * seen.bytes_s {
        format!("the answers filled it with {:.0} kB/s", flow / 1e3)
    } else if crossing > allowed {
        format!(
            "the {bytes:.0} bytes of a request take {:.1} ms on it, {:.1} ms are allowed of this TTFT",
            goodput_record::millis(crossing),
            goodput_record::millis(allowed)
        )
    } else {
        return None;
    };
    Some(Invalid::Path {
        bytes_s: seen.bytes_s,
        effect,
    })
}

/// Looks at what the way to the server carries, where the plan says how, and examines the point
/// again.
pub(crate) async fn look(client: &Rc<Client>, plan: &PointPlan, report: &mut PointReport) {
    let long_enough = report
        .window_span()
        .is_some_and(|span| span >= WORTH_ASKING);
    let Some(probe) = &plan.path_probe else {
        return;
    };
    if report.interrupted || !long_enough {
        return;
    }
    if let Some(enough) = enough(report, plan.shard.of()) {
        report.path = ask(client, probe, enough).await;
        client.close_idle();
        let known = std::mem::take(&mut report.invalid);
        report.examine(plan, known);
    }
}

/// Measures the way as told; see [`by_page`] and [`by_address`].
async fn ask(client: &Rc<Client>, probe: &PathProbe, enough: f64) -> Option<PathSeen> {
    match probe {
        PathProbe::Page(page) => by_page(client, page, enough).await,
        PathProbe::Address(path) => by_address(client, path, enough).await,
    }
}

/// Asks for `path` with short and with long addresses, several at once, in turn. Of each kind the
/// fastest round counts: a busy machine delays some, and what the load left on the way the first.
async fn by_address(client: &Rc<Client>, path: &str, enough: f64) -> Option<PathSeen> {
    let mut fastest = [Duration::MAX; 2];
    let began = client.clock().now();
    let mut bytes_s = 0.0;
    for round in 1..=2 * ALONE {
        for (took, bytes) in fastest.iter_mut().zip([1, LONG]) {
            let address = format!("{path}?goodput={}", "x".repeat(bytes));
            let sent = client.clock().now();
            fetch(client, &address, LONG_AT_ONCE).await?;
            *took = (*took).min(client.clock().now().since(sent)?);
        }
        let longer = fastest[1].saturating_sub(fastest[0]).as_secs_f64();
        bytes_s = (LONG * LONG_AT_ONCE) as f64 / longer.max(1e-6);
        if round >= ROUNDS_LEAST && bytes_s >= enough {
            // How much more it carries cannot be told from a few kB.
            return Some(PathSeen {
                bytes_s: enough,
                is_limit: false,
            });
        }
        if round >= ROUNDS_LEAST && client.clock().now().since(began)? > PATIENCE {
            break;
        }
    }
    Some(PathSeen {
        bytes_s,
        is_limit: true,
    })
}

/// Fetches `page` until it comes with `enough` bytes a second, or until more at once brings no
/// more. `None` where the page cannot be had, or no limit was met in time.
async fn by_page(client: &Rc<Client>, page: &str, enough: f64) -> Option<PathSeen> {
    let clock = client.clock();
    let began = clock.now();
    let mut best = 0.0_f64;
    for _ in 0..ALONE {
        best = best.max(fetch(client, page, 1).await?);
        if best >= enough {
            return Some(PathSeen {
                bytes_s: best,
                is_limit: false,
            });
        }
        if clock.now().since(began)? > PATIENCE / 3 {
            break;
        }
    }
    for at_once in AT_ONCE {
        let rate = fetch(client, page, at_once).await?;
        if rate >= enough {
            return Some(PathSeen {
                bytes_s: rate,
                is_limit: false,
            });
        }
        let grows = rate > best * GROWS;
        best = best.max(rate);
        let late = clock.now().since(began)? > PATIENCE;
        if !grows && (late || at_once >= 8) {
            return Some(PathSeen {
                bytes_s: best,
                is_limit: true,
            });
        }
        if late {
            break;
        }
    }
    None
}

/// Fetches the page so often at once. Bytes a second of all together, or of the one whose body
/// came fastest: a server may take long to write its page and no time to send it.
async fn fetch(client: &Rc<Client>, page: &str, at_once: usize) -> Option<f64> {
    client.open_connections(at_once).await;
    let began = client.clock().now();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..at_once {
        let (client, page) = (Rc::clone(client), page.to_owned());
        all.spawn_local(async move { client.get(&page).await });
    }
    let (mut bytes, mut fastest) = (0, 0.0_f64);
    while let Some(reply) = all.join_next().await {
        let reply: Reply = reply.ok()?.ok()?;
        bytes += reply.bytes;
        fastest = fastest.max(reply.transfer_rate().unwrap_or(0.0));
    }
    let took = client.clock().now().since(began)?;
    Some(fastest.max(bytes as f64 / took.as_secs_f64().max(1e-6)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::{
        Clock,
        tests::{ms, run, server::serve, target},
    };

    const PAGE: usize = 8 * 1024;

    fn head() -> String {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {PAGE}\r\n\r\n")
    }

    /// Far away, not narrow: what takes long alone does not take longer together.
    #[test]
    fn a_far_server_is_no_narrow_way() {
        run(async {
            let (address, _) = serve(|mut sock, _, _| async move {
                tokio::time::sleep(ms(40)).await;
                let page = [head().into_bytes(), vec![b'x'; PAGE]].concat();
                sock.0.write_all(&page).await?;
                Ok(Some(sock))
            })
            .await;
            let client = Client::new(target(address), Clock::start(), "t").await;
            // Alone it comes with 200 kB/s.
            let seen = by_page(&client.unwrap(), "/metrics", 500e3).await;
            assert!(!seen.is_some_and(|seen| seen.is_limit), "{seen:?}");
        });
    }

    #[test]
    fn a_narrow_way_carries_no_more_however_much_is_asked() {
        run(async {
            let free = Rc::new(Cell::new(tokio::time::Instant::now()));
            let (address, _) = serve(move |mut sock, _, _| {
                let free = Rc::clone(&free);
                async move {
                    sock.0.write_all(head().as_bytes()).await?;
                    for piece in vec![b'x'; PAGE].chunks(1024) {
                        // One after the other, whoever they belong to: 128 kB/s.
                        let turn = free.get().max(tokio::time::Instant::now()) + ms(8);
                        free.set(turn);
                        tokio::time::sleep_until(turn).await;
                        sock.0.write_all(piece).await?;
                    }
                    Ok(Some(sock))
                }
            })
            .await;
            let client = Client::new(target(address), Clock::start(), "t").await;
            let seen = by_page(&client.unwrap(), "/metrics", 500e3).await.unwrap();
            assert!(seen.is_limit && seen.bytes_s < 160e3, "{seen:?}");
        });
    }

    /// Answers `GET` with nothing, after `takes` and the time of the address's bytes at `bytes_s`
    /// on a line that all connections share.
    async fn by_a_line(takes: Duration, bytes_s: f64) -> Option<PathSeen> {
        let free = Rc::new(Cell::new(tokio::time::Instant::now()));
        let (address, _) = serve(move |mut sock, _, seen| {
            let (free, bytes) = (Rc::clone(&free), seen.last_request.borrow().len());
            async move {
                let crossing = Duration::from_secs_f64(bytes as f64 / bytes_s);
                let turn = free.get().max(tokio::time::Instant::now()) + crossing;
                free.set(turn);
                tokio::time::sleep_until(turn + takes).await;
                let nothing = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
                sock.0.write_all(nothing).await?;
                Ok(Some(sock))
            }
        })
        .await;
        let client = Client::new(target(address), Clock::start(), "t").await;
        by_address(&client.unwrap(), "/v1/models", 400e3).await
    }

    #[test]
    fn long_addresses_tell_a_narrow_way_from_a_slow_answer() {
        run(async {
            let narrow = by_a_line(Duration::ZERO, 64e3).await.unwrap();
            assert!(narrow.is_limit, "{narrow:?}");
            assert!((40e3..80e3).contains(&narrow.bytes_s), "{narrow:?}");
            let slow = by_a_line(ms(30), 1e9).await.unwrap();
            assert!(!slow.is_limit, "{slow:?}");
        });
    }

    #[test]
    fn a_page_that_is_not_there_tells_nothing() {
        run(async {
            let nobody = "127.0.0.1:9".parse().unwrap();
            let client = Client::new(target(nobody), Clock::start(), "t").await;
            assert_eq!(by_page(&client.unwrap(), "/metrics", 1e6).await, None);
        });
    }
}
