//! Limits of tenants: rates as token buckets, open requests as a count.

use std::time::Duration;

use goodput_record::{Timestamp, span_of};

use crate::{
    config::{Rate, Terms},
    request::{TenantId, Why},
};

/// A bucket's level. Below zero after work that came out larger than predicted.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// `None`: full, never used.
    level: Option<(f64, Timestamp)>,
}

impl Bucket {
    fn level(&self, rate: &Rate, now: Timestamp) -> f64 {
        let Some((level, at)) = self.level else {
            return rate.burst;
        };
        let span = now.since(at).unwrap_or_default();
        (level + span.as_secs_f64() * rate.per_second).min(rate.burst)
    }

    /// How long until `amount` can be taken; zero: now. What is larger than the bucket can be taken
    /// when it is full.
    fn wait(&self, rate: &Rate, now: Timestamp, amount: f64) -> Duration {
        let short = amount.min(rate.burst) - self.level(rate, now);
        // Rounding of the refill must not refuse what falls due exactly now.
        if short <= 1e-9 * rate.burst {
            return Duration::ZERO;
        }
        span_of(short / rate.per_second)
    }

    fn take(&mut self, rate: &Rate, now: Timestamp, amount: f64) {
        self.level = Some(((self.level(rate, now) - amount).min(rate.burst), now));
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Tenant {
    terms: Option<Terms>,
    requests: Bucket,
    work: Bucket,
    open: u32,
}

/// All tenants; beyond `most` they share one place.
#[derive(Clone, Debug)]
pub(crate) struct Tenants {
    places: Vec<Tenant>,
    most: u32,
    terms: Terms,
}

impl Tenants {
    pub(crate) const fn new(most: u32, terms: Terms) -> Self {
        Self {
            places: Vec::new(),
            most,
            terms,
        }
    }

    /// The place of a tenant: its own number, or the one that all others share.
    pub(crate) fn place(&mut self, tenant: TenantId) -> u32 {
        let place = tenant.0.min(self.most);
        if self.places.len() <= place as usize {
            self.places.resize(place as usize + 1, Tenant::default());
        }
        place
    }

    pub(crate) fn set_terms(&mut self, tenant: TenantId, terms: Terms) {
        let place = self.place(tenant);
        self.places[place as usize].terms = Some(terms);
    }

    pub(crate) fn weight(&self, place: u32) -> u32 {
        self.terms_of(place).weight.max(1)
    }

    fn terms_of(&self, place: u32) -> &Terms {
        let tenant = self.places.get(place as usize);
        tenant.and_then(|t| t.terms.as_ref()).unwrap_or(&self.terms)
    }

    /// Whether the tenant may ask for this now; if not, why and for how long.
    pub(crate) fn check(
        &self,
        place: u32,
        now: Timestamp,
        work: u64,
    ) -> Result<(), (Why, Duration)> {
        let (terms, tenant) = (self.terms_of(place), &self.places[place as usize]);
        if terms.open.is_some_and(|most| tenant.open >= most) {
            return Err((Why::TenantOpen, Duration::ZERO));
        }
        let wait = |rate: Option<Rate>, bucket: &Bucket, amount| {
            rate.map_or(Duration::ZERO, |rate| bucket.wait(&rate, now, amount))
        };
        let requests = wait(terms.requests, &tenant.requests, 1.0);
        let wait = requests.max(wait(terms.work, &tenant.work, work as f64));
        if wait.is_zero() {
            Ok(())
        } else {
            Err((Why::TenantRate, wait))
        }
    }

    /// A request was taken in: reserves its work.
    pub(crate) fn open(&mut self, place: u32, now: Timestamp, work: u64) {
        let terms = *self.terms_of(place);
        let tenant = &mut self.places[place as usize];
        tenant.open += 1;
        if let Some(rate) = terms.requests {
            tenant.requests.take(&rate, now, 1.0);
        }
        if let Some(rate) = terms.work {
            tenant.work.take(&rate, now, work as f64);
        }
    }

    /// It is over: what was reserved and not used is given back, what was used beyond it taken.
    pub(crate) fn close(&mut self, place: u32, now: Timestamp, reserved: u64, used: u64) {
        let terms = *self.terms_of(place);
        let tenant = &mut self.places[place as usize];
        tenant.open -= 1;
        if reserved != used
            && let Some(rate) = terms.work
        {
            tenant.work.take(&rate, now, used as f64 - reserved as f64);
        }
    }

    /// Requests of a tenant that are open.
    pub(crate) fn open_of(&self, tenant: TenantId) -> u32 {
        let place = tenant.0.min(self.most) as usize;
        self.places.get(place).map_or(0, |t| t.open)
    }
}
