//! The emulator's tokenizer: one token a word, and a few a message for the chat template.
//!
//! A real tokenizer would tie the emulator to a model's files. Words are enough: a prompt has a
//! stable count, equal beginnings give equal blocks, and an answer that comes back as history is
//! the same tokens again.

use goodput_stats::mix;

/// What the chat template puts around a message: three tokens before it and one after; and three
/// to open the answer.
const OPEN: &[u8] = b"<|im_start|>";
const CLOSE: &[u8] = b"<|im_end|>";
const LINE: &[u8] = b"\n";

/// Counts tokens and chains the hashes of whole blocks as the tokens arrive.
#[derive(Clone, Debug)]
pub(crate) struct TokenSink {
    block_tokens: u32,
    in_block: u32,
    chain: u64,
    blocks: Vec<u64>,
    tokens: u32,
    ids: Option<Vec<u32>>,
}

impl TokenSink {
    /// An empty sink for blocks of `block_tokens` tokens.
    pub(crate) const fn new(block_tokens: u32) -> Self {
        Self {
            block_tokens,
            in_block: 0,
            chain: 0x9E37_79B9_7F4A_7C15,
            blocks: Vec::new(),
            tokens: 0,
            ids: None,
        }
    }

    /// The same, and keeps a number for each token.
    pub(crate) fn with_ids(block_tokens: u32) -> Self {
        let mut sink = Self::new(block_tokens);
        sink.ids = Some(Vec::new());
        sink
    }

    /// Takes the next token.
    pub(crate) fn token(&mut self, text: &[u8]) {
        self.hashed(hash(text));
    }

    /// Takes a token that is known by its number alone.
    pub(crate) fn id(&mut self, id: u32) {
        self.hashed(mix(u64::from(id)));
    }

    /// Takes every word of `text`.
    pub(crate) fn words(&mut self, text: &str) {
        for word in text.split_ascii_whitespace() {
            self.token(word.as_bytes());
        }
    }

    /// Opens a message of the chat template.
    pub(crate) fn open_message(&mut self, role: &str) {
        self.token(OPEN);
        self.token(role.as_bytes());
        self.token(LINE);
    }

    /// Closes the message.
    pub(crate) fn close_message(&mut self) {
        self.token(CLOSE);
    }

    /// Tokens so far.
    pub(crate) const fn tokens(&self) -> u32 {
        self.tokens
    }

    /// The chain's hash over all tokens so far: what the text of the answer is drawn from.
    pub(crate) const fn digest(&self) -> u64 {
        self.chain
    }

    /// The numbers of the tokens, if they were asked for.
    pub(crate) fn ids(&self) -> &[u32] {
        self.ids.as_deref().unwrap_or_default()
    }

    /// The chained hashes of the whole blocks.
    pub(crate) fn into_blocks(self) -> Vec<u64> {
        self.blocks
    }

    fn hashed(&mut self, token: u64) {
        self.tokens = self.tokens.saturating_add(1);
        self.chain = mix(self.chain.rotate_left(5) ^ token);
        if let Some(ids) = &mut self.ids {
            ids.push(u32::try_from(token % VOCABULARY).unwrap_or(0));
        }
        self.in_block += 1;
        if self.in_block == self.block_tokens {
            self.in_block = 0;
            self.blocks.push(self.chain);
        }
    }
}

/// Token numbers are below this, as with the models that are emulated.
const VOCABULARY: u64 = 151_936;

/// FNV-1a, finished by a mix so that every bit counts.
fn hash(bytes: &[u8]) -> u64 {
    let folded = bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    mix(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Vec<u64> {
        let mut sink = TokenSink::new(4);
        sink.words(text);
        sink.into_blocks()
    }

    #[test]
    fn a_word_is_a_token_with_its_punctuation() {
        let mut sink = TokenSink::with_ids(16);
        sink.words("  Hello, big\tworld. \n");
        assert_eq!(sink.tokens(), 3);
        assert_eq!(sink.ids().len(), 3);
    }

    #[test]
    fn blocks_are_equal_as_far_as_the_text_is() {
        let (a, b) = (
            blocks("a b c d e f g h i"),
            blocks("a b c d e f g X i j k l"),
        );
        assert_eq!((a.len(), b.len()), (2, 3));
        assert_eq!(a[0], b[0]);
        assert_ne!(a[1], b[1]);
        assert_ne!(
            blocks("w w w w w w w w")[0],
            blocks("w w w w w w w w")[1],
            "chained: the same words later are another block"
        );
    }
}
