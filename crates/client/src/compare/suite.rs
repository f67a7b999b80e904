//! Files of PostgreSQL's test suite, made up in the shape that its scripts expect.
//!
//! The suite's tables have ten thousand rows of numbers that follow from one another, in an order
//! that looks random. A `COPY table FROM 'folder/data/file.data'` becomes a COPY from the client
//! with such rows. Files that nothing is known about stay missing, on both sides.

use std::fmt::Write;

/// The folder that scripts find in the environment. It is not there.
pub(super) const FOLDER: &str = "/nonexistent";

/// A statement that reads a file of the suite, with the data in place of the file.
pub(super) struct SuiteFile {
    pub(super) statement: String,
    pub(super) data: String,
}

/// The file that a statement reads, if it is one of the suite.
pub(super) fn file_of(statement: &str) -> Option<SuiteFile> {
    let (head, rest) = statement.split_once(&format!("'{FOLDER}/data/"))?;
    let (name, options) = rest.split_once('\'')?;
    let is_copy = head.trim_start().get(..4)?.eq_ignore_ascii_case("copy");
    let data = match name {
        "onek.data" => numbers(1000),
        "tenk.data" => numbers(10_000),
        "person.data" => people(50, ""),
        "emp.data" => people(3, "\t1000\tsharon"),
        "student.data" => people(2, "\t2.5"),
        "stud_emp.data" => people(3, "\t3500\tsharon\t3.9\t40"),
        "streets.data" => streets(),
        _ => return None,
    };
    is_copy.then(|| SuiteFile {
        statement: format!("{head}STDIN{options}"),
        data,
    })
}

/// Rows of the shape of `onek` and `tenk1`.
fn numbers(count: u64) -> String {
    let mut data = String::new();
    for unique2 in 0..count {
        // A multiplier without common factors visits each number once.
        let unique1 = (unique2 * 7919 + 880) % count;
        let hundred = unique1 % 100;
        let moduli = [2, 4, 10, 20, 100, 1000, 2000, 5000, 10_000];
        let _ = write!(data, "{unique1}\t{unique2}");
        for modulus in moduli {
            let _ = write!(data, "\t{}", unique1 % modulus);
        }
        let letters = ["AAAAxx", "HHHHxx", "OOOOxx", "VVVVxx"][(unique2 % 4) as usize];
        let _ = writeln!(
            data,
            "\t{}\t{}\t{}\t{}\t{letters}",
            hundred * 2,
            hundred * 2 + 1,
            word(unique1),
            word(unique2)
        );
    }
    data
}

/// Six letters for a number, the lowest digit first.
fn word(mut number: u64) -> String {
    let mut word = String::new();
    for _ in 0..6 {
        word.push(char::from(b'A' + (number % 26) as u8));
        number /= 26;
    }
    word
}

fn people(count: u64, rest: &str) -> String {
    let names = [
        "mike", "joe", "sally", "sandra", "alex", "sue", "denise", "sarah", "teresa", "nan",
    ];
    let person = |at: u64| {
        let name = names[(at % 10) as usize];
        format!(
            "{name}{}\t{}\t({},{}){rest}\n",
            at / 10,
            18 + at * 7 % 60,
            at % 9,
            at * 3 % 11
        )
    };
    (0..count).map(person).collect()
}

fn streets() -> String {
    let street = |at: u64| {
        let name = ["Oak St", "I- 580", "State Hwy 24", "Grove Way"][(at % 4) as usize];
        format!("{name} {at}\t(({at},{}),({},{at}))\n", at + 1, at + 2)
    };
    (0..200).map(street).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_copy_of_a_file_gets_its_rows() {
        let file = file_of("COPY onek FROM '/nonexistent/data/onek.data'").unwrap();
        assert_eq!(file.statement, "COPY onek FROM STDIN");
        let rows: Vec<Vec<&str>> = file
            .data
            .lines()
            .map(|line| line.split('\t').collect())
            .collect();
        assert!(rows.len() == 1000 && rows.iter().all(|row| row.len() == 16));
        let unique: HashSet<&str> = rows.iter().map(|row| row[0]).collect();
        assert_eq!(unique.len(), 1000);
        assert!(file_of("COPY x FROM '/nonexistent/data/other.data'").is_none());
        assert!(file_of("SELECT '/nonexistent/data/onek.data'").is_none());
        assert!(file_of("COPY x FROM STDIN").is_none());
    }
}
