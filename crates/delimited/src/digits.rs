//! Numbers for people: digits in groups of three.
//!
//! Texts that programs read have no groups; this is for sentences and tables.

/// `12,345,678`.
pub fn thousands(number: u64) -> String {
    group_digits(&number.to_string())
}

/// The same for digits that are there already.
pub fn group_digits(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
