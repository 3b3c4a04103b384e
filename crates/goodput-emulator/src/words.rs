//! The text of the answers: varied words, drawn by key and position.
//!
//! One word is one token. Never a row of one repeated token: guards in gateways cut such streams,
//! and speculative decoding and compression would do too well on them.

use goodput_stats::mix;

/// Appends the word at `position` of the answer drawn from `key`, with the space before it.
pub(crate) fn push_word(out: &mut Vec<u8>, key: u64, position: u32) {
    let drawn = draw(key, position);
    let word = WORDS[usize::try_from(drawn % WORDS.len() as u64).unwrap_or(0)].as_bytes();
    let opens = position == 0 || mark(draw(key, position - 1)) == Some(b'.');
    if position > 0 {
        out.push(b' ');
    }
    if opens {
        out.push(word[0].to_ascii_uppercase());
    } else {
        out.push(word[0]);
    }
    out.extend_from_slice(&word[1..]);
    out.extend(mark(drawn));
}

/// The first `tokens` words of the answer.
pub(crate) fn text(key: u64, tokens: u32) -> String {
    let mut out = Vec::with_capacity(tokens as usize * 7);
    for position in 0..tokens {
        push_word(&mut out, key, position);
    }
    String::from_utf8(out).expect("invariant: the words are ASCII")
}

fn draw(key: u64, position: u32) -> u64 {
    mix(key ^ u64::from(position).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// The punctuation after a word: a full stop after one in twelve, a comma after one in twelve.
fn mark(drawn: u64) -> Option<u8> {
    match (drawn >> 40) % 12 {
        0 => Some(b'.'),
        1 => Some(b','),
        _ => None,
    }
}

/// Plain English words; none needs escaping in JSON.
#[rustfmt::skip]
const WORDS: [&str; 460] = [
    "time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world",
    "school", "state", "family", "student", "group", "country", "problem", "hand", "part", "place",
    "case", "week", "company", "system", "program", "question", "work", "government", "number",
    "night", "point", "home", "water", "room", "mother", "area", "money", "story", "fact", "month",
    "lot", "right", "study", "book", "eye", "job", "word", "business", "issue", "side", "kind",
    "head", "house", "service", "friend", "father", "power", "hour", "game", "line", "end",
    "member", "law", "car", "city", "community", "name", "president", "team", "minute", "idea",
    "body", "information", "back", "parent", "face", "others", "level", "office", "door", "health",
    "person", "art", "war", "history", "party", "result", "change", "morning", "reason",
    "research", "girl", "guy", "moment", "air", "teacher", "force", "education", "river",
    "mountain", "forest", "bridge", "garden", "window", "kitchen", "table", "letter", "paper",
    "market", "winter", "summer", "spring", "autumn", "island", "harbour", "valley", "field",
    "stone", "road", "path", "light", "shadow", "colour", "music", "voice", "answer", "signal",
    "engine", "machine", "wheel", "cable", "server", "network", "memory", "pattern", "surface",
    "circle", "corner", "centre", "measure", "weight", "length", "speed", "distance", "journey",
    "ship", "sailor", "captain", "pilot", "farmer", "doctor", "painter", "writer", "reader",
    "singer", "builder", "driver", "guest", "neighbour", "stranger", "village", "church", "tower",
    "castle", "palace", "temple", "theatre", "museum", "library", "station", "airport", "be",
    "have", "do", "say", "get", "make", "go", "know", "take", "see", "come", "think", "look",
    "want", "give", "use", "find", "tell", "ask", "seem", "feel", "try", "leave", "call", "keep",
    "let", "begin", "help", "show", "hear", "play", "run", "move", "live", "believe", "bring",
    "happen", "write", "provide", "sit", "stand", "lose", "pay", "meet", "include", "continue",
    "set", "learn", "lead", "understand", "watch", "follow", "stop", "create", "speak", "read",
    "allow", "add", "spend", "grow", "open", "walk", "win", "offer", "remember", "love",
    "consider", "appear", "buy", "wait", "serve", "die", "send", "expect", "build", "stay", "fall",
    "cut", "reach", "kill", "remain", "suggest", "raise", "pass", "sell", "require", "report",
    "decide", "pull", "carry", "break", "receive", "agree", "support", "explain", "hope",
    "develop", "drive", "cross", "travel", "gather", "return", "choose", "drop", "plant", "cover",
    "touch", "climb", "fly", "swim", "paint", "sing", "cook", "clean", "repair", "good", "new",
    "first", "last", "long", "great", "little", "own", "other", "old", "big", "high", "different",
    "small", "large", "next", "early", "young", "important", "few", "public", "bad", "same",
    "able", "quiet", "bright", "gentle", "heavy", "narrow", "broad", "deep", "shallow", "distant",
    "familiar", "ordinary", "curious", "patient", "steady", "sudden", "simple", "complex", "warm",
    "cold", "dry", "wet", "soft", "hard", "smooth", "rough", "empty", "full", "ancient", "modern",
    "local", "foreign", "private", "careful", "honest", "clever", "brave", "calm", "fresh",
    "sweet", "bitter", "sharp", "plain", "golden", "silver", "green", "blue", "red", "white",
    "black", "grey", "brown", "the", "of", "and", "to", "in", "a", "that", "it", "with", "as",
    "for", "on", "by", "at", "from", "but", "not", "this", "they", "we", "she", "he", "you", "all",
    "there", "when", "which", "one", "would", "what", "their", "out", "about", "up", "into",
    "than", "them", "can", "only", "some", "could", "these", "two", "may", "then", "now", "also",
    "our", "over", "after", "most", "even", "because", "any", "well", "where", "through", "much",
    "before", "too", "very", "just", "still", "between", "each", "often", "never", "always",
    "again", "almost", "perhaps", "rather", "quite", "under", "across", "behind", "beyond",
    "within", "without", "along", "around", "against", "among", "during", "toward", "until",
    "while", "although", "however", "therefore", "instead", "together", "already", "soon", "later",
    "today", "yesterday", "tomorrow",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_as_many_words_as_tokens_and_varies() {
        let text = text(7, 400);
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        assert_eq!(words.len(), 400);
        let distinct: std::collections::BTreeSet<_> = words.iter().collect();
        assert!(distinct.len() > 150, "{}", distinct.len());
        let same = words.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(same < 5, "{same}");
        assert!(text.starts_with(|c: char| c.is_ascii_uppercase()));
    }

    #[test]
    fn an_answer_is_its_key() {
        assert_eq!(text(7, 50), text(7, 50));
        assert_ne!(text(7, 50), text(8, 50));
    }
}
