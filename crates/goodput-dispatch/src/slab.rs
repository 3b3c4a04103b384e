//! Open requests, in places that are used again.

use goodput_record::Timestamp;

use crate::request::{ReplicaId, Ticket};

/// Where an open request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The place is free.
    Vacant,
    /// In the queue.
    Waiting,
    /// At a replica that takes it to the end, or to its first token.
    Sent(ReplicaId),
    /// Prefilled, and waiting for a place to decode; the replica keeps its KV blocks.
    Handing(ReplicaId),
}

/// Hashes of a prompt's beginning that a request keeps.
pub(crate) const KEPT_HASHES: usize = 16;

/// An open request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) generation: u32,
    pub(crate) stage: Stage,
    pub(crate) id: u64,
    pub(crate) class: u8,
    pub(crate) attempts: u8,
    /// The tenant's place.
    pub(crate) tenant: u32,
    /// Number of the offer: the order of arrival.
    pub(crate) seq: u64,
    /// Place in the order of its class, the smallest first.
    pub(crate) key: u64,
    pub(crate) expires: Timestamp,
    pub(crate) prefill_work: u64,
    pub(crate) decode_work: u64,
    /// Work booked at the replica where it is.
    pub(crate) booked: u64,
    /// A replica that is not to be tried again if there is another.
    pub(crate) avoid: Option<ReplicaId>,
    /// The session's hash, if it sticks.
    pub(crate) session: Option<u64>,
}

impl Open {
    pub(crate) const fn work(&self) -> u64 {
        self.prefill_work.saturating_add(self.decode_work)
    }
}

/// Hashes at fixed depths of a prompt, the shallowest first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Landmarks {
    pub(crate) hashes: [u64; KEPT_HASHES],
    pub(crate) count: u8,
}

impl Landmarks {
    /// Of a prompt of which nothing is known.
    pub(crate) const NONE: Self = Self {
        hashes: [0; KEPT_HASHES],
        count: 0,
    };

    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes[..usize::from(self.count)]
    }
}

/// The open requests. As many places as were ever open at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slab {
    places: Vec<Open>,
    /// By place, where anybody asks for them; may be shorter than the places.
    landmarks: Vec<Landmarks>,
    free: Vec<u32>,
}

impl Slab {
    /// Takes a place for a request; generation and stage of `open` do not matter.
    pub(crate) fn insert(&mut self, open: Open, landmarks: &Landmarks) -> Ticket {
        let ticket = self.insert_open(open);
        let place = ticket.slot as usize;
        if landmarks.count > 0 && place >= self.landmarks.len() {
            self.landmarks.resize(place + 1, Landmarks::NONE);
        }
        if let Some(kept) = self.landmarks.get_mut(place) {
            *kept = *landmarks;
        }
        ticket
    }

    /// What the request in a place keeps of its prompt.
    pub(crate) fn landmarks(&self, slot: u32) -> Landmarks {
        let kept = self.landmarks.get(slot as usize);
        kept.copied().unwrap_or(Landmarks::NONE)
    }

    fn insert_open(&mut self, open: Open) -> Ticket {
        let Some(slot) = self.free.pop() else {
            let slot = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
            self.places.push(Open {
                generation: 0,
                stage: Stage::Waiting,
                ..open
            });
            return Ticket {
                slot,
                generation: 0,
            };
        };
        let place = &mut self.places[slot as usize];
        let generation = place.generation;
        *place = Open {
            generation,
            stage: Stage::Waiting,
            ..open
        };
        Ticket { slot, generation }
    }

    /// The request of a ticket, while it is open.
    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Open> {
        let open = self.places.get(ticket.slot as usize)?;
        (open.generation == ticket.generation && open.stage != Stage::Vacant).then_some(open)
    }

    /// The request in a place that is known to be taken.
    pub(crate) fn at(&self, slot: u32) -> &Open {
        &self.places[slot as usize]
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut Open {
        &mut self.places[slot as usize]
    }

    pub(crate) fn ticket(&self, slot: u32) -> Ticket {
        Ticket {
            slot,
            generation: self.at(slot).generation,
        }
    }

    /// Frees a place. Tickets of it are void from now on.
    pub(crate) fn remove(&mut self, slot: u32) -> Open {
        let place = &mut self.places[slot as usize];
        let open = *place;
        place.stage = Stage::Vacant;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot);
        open
    }

    /// Requests open.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
