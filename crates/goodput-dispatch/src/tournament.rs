//! The smallest of a fixed set of keys, one of which changes at a time.

/// A tournament tree: the place of the smallest key is known at once, a change costs as many
/// comparisons as the set has doublings. Of equal keys the lower place wins.
#[derive(Clone, Debug, Default)]
pub struct Tournament<K> {
    keys: Vec<Option<K>>,
    /// Node 1 is the root, node `i` has the children `2 i` and `2 i + 1`. `NOBODY` where no key is.
    winners: Vec<u32>,
}

const NOBODY: u32 = u32::MAX;

impl<K: Ord + Copy> Tournament<K> {
    /// No place at all.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            keys: Vec::new(),
            winners: Vec::new(),
        }
    }

    /// The smallest key and its place; `None` where no place has one.
    #[must_use]
    pub fn first(&self) -> Option<(usize, K)> {
        let place = *self.winners.get(1)? as usize;
        Some((place, self.key(place)?))
    }

    /// The key of a place.
    #[must_use]
    pub fn key(&self, place: usize) -> Option<K> {
        *self.keys.get(place)?
    }

    /// Gives a place another key, or none. Places that were never heard of come into being.
    pub fn set(&mut self, place: usize, key: Option<K>) {
        if place >= self.keys.len() {
            self.grow(place + 1);
        }
        self.keys[place] = key;
        // The leaf's number is `leaves + place`; its parent's is half of that.
        let mut node = self.winners.len().midpoint(place);
        while node >= 1 {
            let winner = self.play(node);
            // Who neither was nor is the winner here changes nothing further up.
            let before = std::mem::replace(&mut self.winners[node], winner);
            if before == winner && before as usize != place {
                break;
            }
            node /= 2;
        }
    }

    /// Makes room for `places`; the tree is built anew.
    fn grow(&mut self, places: usize) {
        let leaves = places.next_power_of_two().max(2);
        self.keys.resize(leaves, None);
        self.winners = vec![NOBODY; leaves];
        for node in (1..leaves).rev() {
            self.winners[node] = self.play(node);
        }
    }

    /// The winner of one node, from its children.
    fn play(&self, node: usize) -> u32 {
        let (left, right) = (self.candidate(2 * node), self.candidate(2 * node + 1));
        match (self.at(left), self.at(right)) {
            (Some(a), Some(b)) if b < a => right,
            (None, Some(_)) => right,
            (Some(_), _) => left,
            (None, None) => NOBODY,
        }
    }

    fn candidate(&self, child: usize) -> u32 {
        let leaves = self.winners.len();
        if child < leaves {
            self.winners[child]
        } else {
            u32::try_from(child - leaves).unwrap_or(NOBODY)
        }
    }

    fn at(&self, candidate: u32) -> Option<K> {
        self.key(candidate as usize)
    }
}
