//! Shares of the transactions of a workload, and the decks that keep them.
//!
//! Each kind has cards in a deck. Decks are shuffled and played to their end, one after the other,
//! so that the shares hold exactly over each deck, whatever the length of the run. A mix is written
//! as the name of one kind, as `standard`, or as numbers of cards in the order of the kinds.

use crate::random::{Random, shuffle};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// Most kinds of transactions of a workload.
pub const KINDS_MAX: usize = 8;
/// Most cards of a deck.
const DECK_MAX: u32 = 10_000;

/// The kinds of transactions of a workload.
pub trait Kind: Copy + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// All of them, in the order of their numbers.
    const ALL: &'static [Self];
    /// Cards of each in the standard mix; zeros after the last kind.
    const STANDARD: [u32; KINDS_MAX];

    /// The name in options and reports.
    fn name(self) -> &'static str;
}

/// Cards of each kind in a deck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix<K> {
    cards: [u32; KINDS_MAX],
    kind: PhantomData<K>,
}

impl<K: Kind> Mix<K> {
    /// The shares of the specification.
    pub const STANDARD: Self = Self {
        cards: K::STANDARD,
        kind: PhantomData,
    };

    /// Cards of each kind, in the order of [`Kind::ALL`]; an error with the reason if their number
    /// is wrong, there is no card or there are more than 10,000.
    pub fn new(cards: &[u32]) -> Result<Self, String> {
        let sum = cards
            .iter()
            .fold(0_u32, |sum, count| sum.saturating_add(*count));
        if cards.len() != K::ALL.len() || sum == 0 || sum > DECK_MAX {
            return Err(format!(
                "{} shares add up to {sum}; use {} shares of 1 to {DECK_MAX} together, for example {}",
                cards.len(),
                K::ALL.len(),
                Self::STANDARD.numbers()
            ));
        }
        let mut all = [0; KINDS_MAX];
        all[..cards.len()].copy_from_slice(cards);
        Ok(Self {
            cards: all,
            kind: PhantomData,
        })
    }

    /// Cards of each kind, in the order of [`Kind::ALL`].
    pub fn cards(&self) -> &[u32] {
        &self.cards[..K::ALL.len()]
    }

    fn numbers(&self) -> String {
        let numbers: Vec<String> = self.cards().iter().map(ToString::to_string).collect();
        numbers.join(",")
    }
}

impl<K: Kind> FromStr for Mix<K> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "standard" {
            return Ok(Self::STANDARD);
        }
        if let Some(only) = K::ALL.iter().position(|kind| kind.name() == text) {
            let mut cards = [0; KINDS_MAX];
            cards[only] = 1;
            return Self::new(&cards[..K::ALL.len()]);
        }
        let numbers: Result<Vec<u32>, _> =
            text.split(',').map(|part| part.trim().parse()).collect();
        match numbers {
            Ok(cards) if cards.len() == K::ALL.len() => Self::new(&cards),
            _ => {
                let names: Vec<&str> = K::ALL.iter().map(|kind| kind.name()).collect();
                Err(format!(
                    "unknown mix `{text}`; use standard, one of {}, or {} shares in that order, for example {}",
                    names.join(", "),
                    names.len(),
                    Self::STANDARD.numbers()
                ))
            }
        }
    }
}

impl<K: Kind> fmt::Display for Mix<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cards == K::STANDARD {
            return f.write_str("standard");
        }
        f.write_str(&self.numbers())
    }
}

/// The deck that is being played.
#[derive(Debug)]
pub(crate) struct Deck<K> {
    mix: Mix<K>,
    cards: Vec<K>,
}

impl<K: Kind> Deck<K> {
    pub(crate) fn new(mix: Mix<K>) -> Self {
        Self {
            mix,
            cards: Vec::new(),
        }
    }

    /// The next card.
    pub(crate) fn draw(&mut self, random: &mut Random) -> K {
        if self.cards.is_empty() {
            for (kind, count) in K::ALL.iter().zip(self.mix.cards()) {
                self.cards.extend((0..*count).map(|_| *kind));
            }
            shuffle(random, &mut self.cards);
        }
        self.cards.pop().expect("a deck has at least one card")
    }
}
