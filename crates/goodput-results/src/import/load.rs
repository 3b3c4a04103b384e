//! How the load of an imported point was made, and when its requests were due.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{Told, Trouble, request::Foreign};

/// Above this share of the time the most requests that were ever in flight were in flight: then
/// somebody held them there.
const HELD_SHARE: f64 = 0.8;
/// A load counts as held while at least this share of the most is in flight.
const HELD_LEVEL: f64 = 0.9;

/// From this share of starts on that come right after an end, ends are what starts them.
const FOLLOW_SHARE: f64 = 0.65;
/// Right after: within this share of the mean distance of starts. Arrivals that know nothing of ends
/// come so close by chance in 26 of 100 cases.
const FOLLOW_NEAR: f64 = 0.3;
/// Arrivals at even distances may keep step with answers of even length.
const EVEN_CV: f64 = 0.1;

/// The load of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ToldLoad {
    /// This many users, each with one request in flight.
    Users(u32),
    /// Arrivals a second.
    Rate(f64),
}

/// Who said what the load was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// The caller.
    Asked,
    /// The file.
    File,
    /// Nobody: it was seen from the times of the requests.
    Seen,
}

/// When one request was due and sent, in nanoseconds since the first was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) origin: u64,
    /// `None`: the file does not tell.
    pub(super) sent: Option<u64>,
}

/// The requests of a point on one axis of time.
#[derive(Clone, Debug)]
pub(super) struct Laid {
    pub(super) load: ToldLoad,
    pub(super) from: From,
    /// In the order of the file.
    pub(super) places: Vec<Place>,
    /// Requests whose start the file does not tell: their place is made up from the load.
    pub(super) made_up: usize,
    /// The window, from and to.
    pub(super) window: (u64, u64),
    /// How the places that are made up compare with the run's own length, where the file tells it.
    pub(super) fitted: Option<Fitted>,
}

/// The length of a run as its file tells it, beside that of the places made up for its requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fitted {
    pub(super) told_s: f64,
    pub(super) laid_s: f64,
    /// Whether the places were stretched or pressed together to that length.
    pub(super) fits: bool,
}

/// Lays a point's requests on an axis.
pub(super) fn lay(told: &Told, asked: Option<ToldLoad>) -> Result<Laid, Trouble> {
    let named = asked
        .map(|load| (load, From::Asked))
        .or(told.load.map(|load| (load, From::File)));
    let starts: Vec<Option<u64>> = told.requests.iter().map(|r| r.sent.or(r.due)).collect();
    let known = starts.iter().flatten().count();
    if known == 0 {
        let Some((load, from)) = named else {
            return Err(Trouble::new(
                "the file tells neither when requests began nor how the load was made",
                "say it: --concurrency N for users that wait for their answers, --rate R for arrivals a second",
            ));
        };
        return Ok(made_up(told, load, from));
    }
    let seen = || (held_or_rate(&told.requests, &starts), From::Seen);
    let (load, from) = named.unwrap_or_else(seen);
    let due = |r: &Foreign| match load {
        // The client's own schedule: what it sent late it sent late.
        ToldLoad::Rate(_) => r.due.or(r.sent),
        ToldLoad::Users(_) => r.sent.or(r.due),
    };
    let first = told.requests.iter().filter_map(due).min().unwrap_or(0);
    let zero = told.window.map_or(first, |window| first.min(window.0));
    let mut last = first;
    let mut places = Vec::with_capacity(told.requests.len());
    for request in &told.requests {
        // One that never began stands beside the one before it.
        let origin = due(request).unwrap_or(last);
        last = origin;
        places.push(Place {
            origin: origin - zero,
            sent: request.sent.map(|at| at.max(origin) - zero),
        });
    }
    let window = match told.window {
        Some((from, to)) => (from.saturating_sub(zero), to.saturating_sub(zero)),
        None => window(&told.requests, &places),
    };
    Ok(Laid {
        load,
        from,
        made_up: told.requests.len() - known,
        window,
        places,
        fitted: None,
    })
}

/// Places for requests of which no start is known: users take the next request as soon as their
/// last has ended, or arrivals come evenly.
fn made_up(told: &Told, load: ToldLoad, from: From) -> Laid {
    let starts: Vec<u64> = match load {
        ToldLoad::Users(users) => {
            let mut free: BinaryHeap<Reverse<u64>> =
                (0..users.max(1)).map(|_| Reverse(0)).collect();
            let mut take = |request: &Foreign| {
                let Reverse(at) = free.pop().unwrap_or(Reverse(0));
                free.push(Reverse(at + request.span()));
                at
            };
            told.requests.iter().map(&mut take).collect()
        }
        ToldLoad::Rate(rate) => (0..told.requests.len())
            .map(|i| goodput_record::nanos_of(i as f64 / rate))
            .collect(),
    };
    let mut places: Vec<Place> = starts
        .into_iter()
        .map(|origin| Place { origin, sent: None })
        .collect();
    let fitted = told
        .duration
        .map(|told_ns| fit(&told.requests, &mut places, told_ns));
    let window = match (fitted, told.duration) {
        (Some(Fitted { fits: true, .. }), Some(told_ns)) => (0, told_ns),
        _ => window(&told.requests, &places),
    };
    Laid {
        load,
        from,
        made_up: places.len(),
        window,
        places,
        fitted,
    }
}

/// Moves made-up places so that the last request ends when the run did: all starts by one factor,
/// latencies as they are. A run that is shorter than its longest request cannot be.
fn fit(requests: &[Foreign], places: &mut [Place], told_ns: u64) -> Fitted {
    let ends = |places: &[Place]| {
        let end = |(request, place): (&Foreign, &Place)| place.origin + request.span();
        requests.iter().zip(places).map(end).max().unwrap_or(0)
    };
    let laid_ns = ends(places);
    let room = |(request, place): (&Foreign, &Place)| {
        // The last token still falls into the window.
        let room = told_ns.checked_sub(request.span() + 1)?;
        Some(if place.origin == 0 {
            f64::INFINITY
        } else {
            room as f64 / place.origin as f64
        })
    };
    let factor = requests
        .iter()
        .zip(&*places)
        .map(room)
        .try_fold(f64::INFINITY, |least, room| Some(least.min(room?)));
    if let Some(factor) = factor.filter(|factor| factor.is_finite()) {
        for place in places.iter_mut() {
            place.origin = goodput_record::nanos_of(place.origin as f64 * factor / 1e9);
        }
    }
    Fitted {
        told_s: told_ns as f64 / 1e9,
        laid_s: laid_ns as f64 / 1e9,
        fits: factor.is_some(),
    }
}

/// The window of a counted point, as of our own: from the first arrival to the last, so that
/// stragglers do not stretch it; to the last end where all were in flight at once.
fn window(requests: &[Foreign], places: &[Place]) -> (u64, u64) {
    let end =
        |(request, place): (&Foreign, &Place)| place.sent.unwrap_or(place.origin) + request.span();
    let last_issue = places.iter().map(|p| p.origin).max().unwrap_or(0);
    let ends = || requests.iter().zip(places).map(end);
    let steady = ends().any(|end| end < last_issue);
    let to = if steady {
        last_issue
    } else {
        ends().max().unwrap_or(last_issue)
    };
    (0, to)
}

/// How many requests were in flight: the changes of their number, in order of time.
fn changes(spans: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, i64)> {
    let mut changes: Vec<(u64, i64)> = spans.flat_map(|(from, to)| [(from, 1), (to, -1)]).collect();
    changes.sort_unstable();
    changes
}

/// The most requests in flight at once, and how many were at `at`.
pub(super) fn in_flight(requests: &[Foreign], places: &[Place], at: u64) -> (u32, u32) {
    let spans = requests
        .iter()
        .zip(places)
        .map(|(r, p)| (p.origin, p.sent.unwrap_or(p.origin) + r.span()));
    let (mut now, mut most, mut then) = (0_i64, 0_i64, 0_i64);
    for (when, change) in changes(spans) {
        now += change;
        most = most.max(now);
        if when <= at {
            then = now;
        }
    }
    let whole = |n: i64| u32::try_from(n).unwrap_or(0);
    (whole(most), whole(then))
}

/// Whether a number of requests was held in flight, or how many arrived a second.
fn held_or_rate(requests: &[Foreign], starts: &[Option<u64>]) -> ToldLoad {
    let spans: Vec<(u64, u64)> = starts
        .iter()
        .zip(requests)
        .filter_map(|(start, r)| Some(((*start)?, (*start)? + r.span())))
        .collect();
    let first = spans.iter().map(|s| s.0).min().unwrap_or(0);
    let last = spans.iter().map(|s| s.0).max().unwrap_or(0);
    let changes = changes(spans.iter().copied());
    let most = changes
        .iter()
        .scan(0_i64, |now, (_, change)| {
            *now += change;
            Some(*now)
        })
        .max()
        .unwrap_or(0);
    let (mut now, mut since, mut held) = (0_i64, first, 0_u64);
    for (when, change) in changes {
        let until = when.min(last);
        if now as f64 >= HELD_LEVEL * most as f64 {
            held += until.saturating_sub(since);
        }
        since = since.max(until);
        now += change;
    }
    let span = last - first;
    let held = held as f64 >= HELD_SHARE * span as f64 || follow(&spans) >= FOLLOW_SHARE;
    if span == 0 || held {
        return ToldLoad::Users(u32::try_from(most).unwrap_or(u32::MAX).max(1));
    }
    ToldLoad::Rate((spans.len() - 1) as f64 / (span as f64 / 1e9))
}

/// The share of starts that come right after an end: a user who waits for an answer asks again when
/// it is there, also where the client took its time and fewer were in flight for a moment.
fn follow(spans: &[(u64, u64)]) -> f64 {
    let (mut starts, mut ends): (Vec<u64>, Vec<u64>) = spans.iter().copied().unzip();
    starts.sort_unstable();
    ends.sort_unstable();
    let gaps: Vec<f64> = starts.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
    if variance.sqrt() < EVEN_CV * mean * (gaps.len() as f64).sqrt() {
        return 0.0;
    }
    let follows = |start: &&u64| {
        let ended = ends.partition_point(|end| *end <= **start);
        let last = ended.checked_sub(1).map(|at| ends[at]);
        last.is_some_and(|end| (**start - end) as f64 <= FOLLOW_NEAR * mean)
    };
    starts.iter().filter(follows).count() as f64 / starts.len().max(1) as f64
}
