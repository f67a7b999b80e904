//! Whether a history has the order that its level promises.
//!
//! The elements of a row have an order: that of the list, or for a register the chain of reads and
//! overwrites. So a transaction that saw an element comes after its writer, one that did not see it
//! comes before, and writers follow each other, as do the transactions of a session. A cycle of
//! these dependencies is an anomaly (Adya's G0, G1c, G-single, G2), unless the level allows it, and
//! so is an element that is missing, was undone, or was seen in another order.

use indelible::Isolation;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::time::Duration;

/// The value that a writer leaves in a row: its transaction's number, and which of its writes.
pub(super) type Element = u64;

/// Elements that a transaction can write.
const ELEMENTS: u64 = super::ELEMENTS;
/// Cycles that are named; more of them add nothing.
const CYCLES_MAX: usize = 10;

/// How writes of a row follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each appends.
    List,
    /// Each overwrites the element that it has read.
    Register,
}

impl Order {
    /// That of a row, by its number.
    pub fn of(row: u64) -> Self {
        if row.is_multiple_of(3) {
            Self::Register
        } else {
            Self::List
        }
    }
}

/// A transaction's observation of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    row: u64,
    len: u32,
    last: Element,
    hash: u64,
    /// Number of the statement; 0 if it holds until the transaction ends.
    statement: u32,
}

impl Observation {
    /// The elements of a row, none if it is not there.
    pub fn new(row: u64, elements: &[u64]) -> Self {
        Self {
            row,
            len: elements.len() as u32,
            last: elements.last().copied().unwrap_or_default(),
            hash: elements
                .iter()
                .fold(0, |hash, &element| mixed(hash, element)),
            statement: 0,
        }
    }

    /// The same, of a moment of the statement with this number, which counts from 1.
    #[must_use]
    pub fn in_statement(self, statement: u32) -> Self {
        Self { statement, ..self }
    }
}

fn mixed(hash: u64, element: Element) -> u64 {
    (hash.rotate_left(7) ^ element).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The committed transactions of one session, oldest first.
#[derive(Debug, Default)]
pub struct SessionHistory {
    transactions: Vec<Committed>,
    /// Whether each statement reads a moment of its own.
    pub(super) reads_by_statement: bool,
}

#[derive(Debug)]
struct Committed {
    number: u64,
    observed: Vec<Observation>,
    /// Rows and elements.
    written: Vec<(u64, Element)>,
    /// Whether the power failed between the call of commit and its return.
    is_doubtful: bool,
}

impl SessionHistory {
    /// Adds a transaction, which no other has the number of.
    pub fn push(&mut self, number: u64, observed: Vec<Observation>, written: Vec<(u64, u64)>) {
        self.add(number, observed, written, false);
    }

    /// Adds a transaction whose commit had been called when the power failed, and had not returned.
    /// [`settle`] decides whether it committed.
    pub fn push_doubtful(
        &mut self,
        number: u64,
        observed: Vec<Observation>,
        written: Vec<(u64, u64)>,
    ) {
        self.add(number, observed, written, true);
    }

    fn add(
        &mut self,
        number: u64,
        observed: Vec<Observation>,
        written: Vec<(u64, u64)>,
        is_doubtful: bool,
    ) {
        self.transactions.push(Committed {
            number,
            observed,
            written,
            is_doubtful,
        });
    }

    /// How many there are.
    pub fn transactions(&self) -> u64 {
        self.transactions.len() as u64
    }
}

/// Decides about the doubtful transactions by the rows after the power cut, and counts them. One is
/// committed if a row has an element of it, or if a committed transaction saw one: then all of it
/// must be there, which [`check`] verifies. Any other one never was.
pub fn settle(sessions: &mut [SessionHistory], lists: &[(u64, Vec<u64>)]) -> u64 {
    let all = || sessions.iter().flat_map(|session| &session.transactions);
    let doubtful: HashMap<u64, &Committed> = all()
        .filter(|transaction| transaction.is_doubtful)
        .map(|transaction| (transaction.number, transaction))
        .collect();
    let in_rows = lists.iter().flat_map(|(_, list)| list.iter().copied());
    let seen = all().filter(|transaction| !transaction.is_doubtful);
    let seen = seen.flat_map(|transaction| transaction.observed.iter().map(|seen| seen.last));
    let mut reached: Vec<u64> = in_rows.chain(seen).map(|last| last / ELEMENTS).collect();
    let mut committed = HashSet::new();
    while let Some(number) = reached.pop() {
        if let Some(transaction) = doubtful.get(&number)
            && committed.insert(number)
        {
            reached.extend(transaction.observed.iter().map(|seen| seen.last / ELEMENTS));
        }
    }
    let count = doubtful.len() as u64;
    for session in sessions {
        session.transactions.retain_mut(|transaction| {
            let is_committed = !transaction.is_doubtful || committed.contains(&transaction.number);
            transaction.is_doubtful = false;
            is_committed
        });
    }
    count
}

/// The order that a history must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// One of all transactions. Any cycle is an anomaly (Adya's PL-3).
    Serializable,
    /// One of commits, and for each transaction a moment in it that it has read: snapshot
    /// isolation. Exactly the cycles without two successive anti-dependencies are anomalies (Cerone
    /// and Gotsman, "Analysing Snapshot Isolation", PODC 2016).
    Snapshot,
    /// The same, with a moment for each statement, not before that of the one before. Locked rows
    /// are read when the transaction commits.
    Statement,
}

impl Level {
    /// That of transactions on connections.
    pub fn of_connections(isolation: Isolation) -> Self {
        match isolation {
            Isolation::Serializable => Self::Serializable,
            Isolation::RepeatableRead => Self::Snapshot,
            Isolation::ReadCommitted => Self::Statement,
        }
    }
}

/// The operations and observations of all sessions.
#[derive(Debug, Default)]
pub struct History {
    /// The sessions.
    pub sessions: Vec<SessionHistory>,
    /// The elements of each row at the end.
    pub lists: Vec<(u64, Vec<u64>)>,
}

/// Something that no order of the transactions explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// A committed write is not in its row.
    Lost {
        /// The row.
        row: u64,
        /// The transaction.
        transaction: u64,
    },
    /// A row has, or had, an element that no committed transaction wrote.
    Foreign {
        /// The row.
        row: u64,
        /// The element.
        element: u64,
    },
    /// A row is at two places.
    Twice {
        /// The row.
        row: u64,
    },
    /// A transaction saw an element that was undone, or was still to be undone.
    Undone {
        /// The row.
        row: u64,
        /// The transaction that read it.
        transaction: u64,
    },
    /// A statement saw two rows with one badge, which a unique index keeps for one.
    SharedBadge {
        /// One of the rows.
        row: u64,
        /// The transaction.
        transaction: u64,
    },
    /// A commit failed for a reason that its statements must have met before.
    Commit {
        /// The transaction.
        transaction: u64,
        /// The error.
        error: String,
    },
    /// A serializable transaction met a duplicate key where it had looked and found no row.
    Duplicate {
        /// The transaction.
        transaction: u64,
        /// The error.
        error: String,
    },
    /// A transaction was run again as often as the database does that, and failed each time.
    GivenUp {
        /// The transaction.
        transaction: u64,
        /// Attempts at it.
        attempts: u64,
        /// The last error.
        error: String,
    },
    /// A transaction waited nearly as long as the limit of waits, as for an undetected deadlock.
    Waited {
        /// The transaction.
        transaction: u64,
        /// How long.
        waited: Duration,
    },
    /// A transaction saw elements in an order that the row never had.
    Torn {
        /// The row.
        row: u64,
        /// The transaction that read it.
        transaction: u64,
    },
    /// Transactions that each have to precede the next one: a cycle.
    Circle(Vec<u64>),
    /// The next process refused to open the world that a cut left.
    Refused {
        /// The cut, counted from 0.
        cut: u64,
        /// Why.
        error: String,
    },
}

impl Anomaly {
    /// Whether transactions of this level may meet it. Phantoms may close cycles at REPEATABLE
    /// READ. A transaction at READ COMMITTED may overwrite a row that has changed since it was
    /// read, so the order of its elements proves nothing; and a row that two transactions found at
    /// neither place may be inserted by both.
    pub fn is_allowed_at(&self, isolation: Isolation) -> bool {
        match isolation {
            Isolation::Serializable => false,
            Isolation::RepeatableRead => matches!(self, Self::Circle(_)),
            Isolation::ReadCommitted => {
                matches!(
                    self,
                    Self::Circle(_) | Self::Twice { .. } | Self::Lost { .. } | Self::Torn { .. }
                )
            }
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { row, transaction } => {
                write!(f, "row {row} lacks what transaction {transaction} wrote")
            }
            Self::Foreign { row, element } => {
                write!(
                    f,
                    "row {row} has {element:x}, which no committed transaction wrote"
                )
            }
            Self::Torn { row, transaction } => {
                write!(f, "transaction {transaction} saw row {row} as it never was")
            }
            Self::Twice { row } => write!(f, "row {row} is at two places"),
            Self::Commit { transaction, error } => {
                write!(f, "the commit of transaction {transaction} failed: {error}")
            }
            Self::SharedBadge { row, transaction } => {
                write!(
                    f,
                    "transaction {transaction} saw row {row} with another one's badge"
                )
            }
            Self::Undone { row, transaction } => {
                write!(
                    f,
                    "transaction {transaction} saw in row {row} what was undone"
                )
            }
            Self::Duplicate { transaction, error } => {
                write!(
                    f,
                    "transaction {transaction} had found no row, and then: {error}"
                )
            }
            Self::GivenUp {
                transaction,
                attempts,
                error,
            } => {
                write!(
                    f,
                    "transaction {transaction} was given up after {attempts} attempts: {error}"
                )
            }
            Self::Waited {
                transaction,
                waited,
            } => {
                write!(f, "transaction {transaction} waited {waited:.1?}")
            }
            Self::Refused { cut, error } => {
                write!(f, "what cut {cut} left cannot be opened: {error}")
            }
            Self::Circle(transactions) => {
                write!(
                    f,
                    "transactions {transactions:?} depend on each other in a cycle"
                )
            }
        }
    }
}

/// Result of the check.
#[derive(Debug, Default)]
pub struct Checked {
    /// Rows.
    pub rows: u64,
    /// Dependencies between transactions.
    pub dependencies: u64,
    /// All of them, but for cycles, of which it has ten at most.
    pub anomalies: Vec<Anomaly>,
}

/// Looks for anomalies of a level.
pub fn check(history: &History, level: Level) -> Checked {
    let mut checked = Checked::default();
    let transactions: Vec<&Committed> = history
        .sessions
        .iter()
        .flat_map(|session| &session.transactions)
        .collect();
    let versions = versions_of(history, &transactions);
    let written = transactions.iter().flat_map(|one| &one.written);
    let known: HashSet<Element> = written.map(|&(_, element)| element).collect();
    let nodes = nodes_of(history, level);
    let wholes = nodes.iter().enumerate().filter(|(_, node)| node.is_whole);
    let by_number: HashMap<u64, usize> = wholes.map(|(at, node)| (node.number(), at)).collect();
    let writer = |element: Element| {
        let number = element / ELEMENTS;
        by_number
            .get(&number)
            .copied()
            .filter(|_| known.contains(&element))
    };
    let mut graph = Graph::new(nodes.len());
    check_rows(&versions, &writer, &mut graph, &mut checked);
    for one in &transactions {
        let transaction = one.number;
        for &(row, element) in &one.written {
            let versions = versions.get(&row);
            if !versions.is_some_and(|row| row.at.contains_key(&element)) {
                checked.anomalies.push(Anomaly::Lost { row, transaction });
            }
        }
    }
    for (at, node) in nodes.iter().enumerate() {
        let transaction = node.number();
        if node.follows {
            graph.before[at - 1].push(at);
        }
        for seen in &node.observed {
            let row = seen.row;
            if seen.last != 0 && !known.contains(&seen.last) {
                checked.anomalies.push(Anomaly::Undone { row, transaction });
                continue;
            }
            let Some(place) = place_of(seen, versions.get(&row)) else {
                checked.anomalies.push(Anomaly::Torn { row, transaction });
                continue;
            };
            let order = versions.get(&row).map_or(&[][..], |row| &row.order);
            if let Some(before) = place.checked_sub(1).and_then(|last| writer(order[last])) {
                graph.before[before].push(at);
            }
            if let Some(after) = order.get(place).and_then(|&next| writer(next)) {
                graph.unseen[at].push(after);
            }
        }
    }
    checked.dependencies = graph.tidy();
    for circle in graph.circles(level).into_iter().take(CYCLES_MAX) {
        let mut numbers: Vec<u64> = circle.iter().map(|&at| nodes[at].number()).collect();
        numbers.dedup();
        checked.anomalies.push(Anomaly::Circle(numbers));
    }
    checked
}

/// Orders the writers of each row.
fn check_rows(
    versions: &BTreeMap<u64, Versions>,
    writer: &impl Fn(Element) -> Option<usize>,
    graph: &mut Graph,
    checked: &mut Checked,
) {
    for (&row, versions) in versions {
        checked.rows += 1;
        if versions.is_twice {
            checked.anomalies.push(Anomaly::Twice { row });
        }
        for &element in &versions.order {
            if writer(element).is_none() {
                checked.anomalies.push(Anomaly::Foreign { row, element });
            }
        }
        for pair in versions.order.windows(2) {
            if let (Some(earlier), Some(later)) = (writer(pair[0]), writer(pair[1])) {
                graph.before[earlier].push(later);
            }
        }
    }
}

/// A place in the order: that of a transaction, or of one of its statements.
struct Node<'h> {
    transaction: &'h Committed,
    observed: Vec<Observation>,
    /// Whether it has the transaction's writes.
    is_whole: bool,
    /// Whether the node before it is of the same session.
    follows: bool,
}

impl Node<'_> {
    fn number(&self) -> u64 {
        self.transaction.number
    }
}

/// The nodes of all sessions, in the order of each.
fn nodes_of(history: &History, level: Level) -> Vec<Node<'_>> {
    let mut nodes = Vec::new();
    for session in &history.sessions {
        let by_statement = level == Level::Statement && session.reads_by_statement;
        let first = nodes.len();
        for transaction in &session.transactions {
            let mut whole = Vec::new();
            let mut statements: BTreeMap<u32, Vec<Observation>> = BTreeMap::new();
            for &seen in &transaction.observed {
                // A row that it has written is locked.
                if by_statement && seen.statement > 0 && !is_own(transaction, seen.last) {
                    statements.entry(seen.statement).or_default().push(seen);
                } else {
                    whole.push(seen);
                }
            }
            let statements = statements.into_values().map(|observed| (observed, false));
            for (observed, is_whole) in statements.chain([(whole, true)]) {
                nodes.push(Node {
                    transaction,
                    observed,
                    is_whole,
                    follows: nodes.len() > first,
                });
            }
        }
    }
    nodes
}

/// Which nodes come before which.
struct Graph {
    /// Nodes that come after a node: those of its session, those that have seen its writes, and
    /// those that have overwritten them.
    before: Vec<Vec<usize>>,
    /// Nodes that have overwritten what a node saw: its anti-dependencies.
    unseen: Vec<Vec<usize>>,
}

impl Graph {
    fn new(nodes: usize) -> Self {
        Self {
            before: vec![Vec::new(); nodes],
            unseen: vec![Vec::new(); nodes],
        }
    }

    /// Leaves each edge once; counts them.
    fn tidy(&mut self) -> u64 {
        tidy(&mut self.before) + tidy(&mut self.unseen)
    }

    /// Groups of nodes that the level does not allow to come before each other.
    fn circles(self, level: Level) -> Vec<Vec<usize>> {
        let Self { before, unseen } = self;
        if level == Level::Serializable {
            let both = before.into_iter().zip(unseen);
            let graph: Vec<Vec<usize>> = both.map(|(one, other)| [one, other].concat()).collect();
            return circles(&graph);
        }
        // Each node twice: reached by an anti-dependency, or not. From the former no second one
        // leads on.
        let plain = |to: &Vec<usize>| -> Vec<usize> { to.iter().map(|to| 2 * to).collect() };
        let mut graph = Vec::with_capacity(2 * before.len());
        for (before, unseen) in before.iter().zip(&unseen) {
            let mut all = plain(before);
            all.extend(unseen.iter().map(|to| 2 * to + 1));
            graph.push(all);
            graph.push(plain(before));
        }
        let found = circles(&graph).into_iter();
        found
            .map(|group| group.into_iter().map(|at| at / 2).collect())
            .collect()
    }
}

/// Leaves each edge of a graph once, and none from a node to itself; counts them.
fn tidy(graph: &mut [Vec<usize>]) -> u64 {
    let mut edges = 0;
    for (from, to) in graph.iter_mut().enumerate() {
        to.sort_unstable();
        to.dedup();
        to.retain(|&to| to != from);
        edges += to.len() as u64;
    }
    edges
}

/// All that a row ever had, in order.
#[derive(Default)]
struct Versions {
    order: Vec<Element>,
    /// Whether the row had, at the end, elements of two rows.
    is_twice: bool,
    at: HashMap<Element, usize>,
    /// Hashes of the first elements, none first.
    prefixes: Vec<u64>,
}

fn versions_of(history: &History, transactions: &[&Committed]) -> BTreeMap<u64, Versions> {
    let mut orders: BTreeMap<u64, Vec<Element>> = BTreeMap::new();
    for (row, list) in &history.lists {
        orders.insert(*row, list.clone());
    }
    // The element that each one overwrote, by row.
    let mut next: HashMap<(u64, Element), Element> = HashMap::new();
    for transaction in transactions {
        let mut own: HashMap<u64, Element> = HashMap::new();
        for &(row, element) in &transaction.written {
            if Order::of(row) == Order::Register {
                // The first write of a row follows the element that was read just before; later
                // ones follow it. An earlier read may have met another one, where the isolation
                // level allows that.
                let mut observed = transaction.observed.iter().rev();
                let read = observed.find(|seen| seen.row == row && !is_own(transaction, seen.last));
                let before = own.insert(row, element).or(read.map(|seen| seen.last));
                next.insert((row, before.unwrap_or_default()), element);
            }
        }
    }
    let twice: HashSet<u64> = orders
        .iter()
        .filter(|(row, list)| has_two_rows(**row, list))
        .map(|(&row, _)| row)
        .collect();
    for (&row, order) in &mut orders {
        if Order::of(row) != Order::Register {
            continue;
        }
        let end = order.last().copied();
        order.clear();
        let mut last = 0;
        // Not past the element that is there at the end: later ones are lost.
        while Some(last) != end
            && let Some(&element) = next.get(&(row, last))
        {
            if order.len() > next.len() {
                break;
            }
            order.push(element);
            last = element;
        }
    }
    orders
        .into_iter()
        .map(|(row, order)| {
            let mut prefixes = vec![0];
            for &element in &order {
                let hash = mixed(prefixes[prefixes.len() - 1], element);
                prefixes.push(hash);
            }
            let at = order.iter().enumerate().map(|(at, &element)| (element, at));
            let versions = Versions {
                is_twice: twice.contains(&row),
                at: at.collect(),
                order,
                prefixes,
            };
            (row, versions)
        })
        .collect()
}

/// Whether elements are those of two rows: a register has one, and a list each of its own once.
fn has_two_rows(row: u64, list: &[Element]) -> bool {
    let most = match Order::of(row) {
        Order::List => list.iter().collect::<HashSet<_>>().len(),
        Order::Register => 1,
    };
    list.len() > most
}

fn is_own(transaction: &Committed, element: Element) -> bool {
    element / ELEMENTS == transaction.number
}

/// How many of a row's elements a transaction saw; none if the row never had the elements observed.
fn place_of(seen: &Observation, versions: Option<&Versions>) -> Option<usize> {
    let len = seen.len as usize;
    if len == 0 {
        return Some(0);
    }
    let versions = versions?;
    match Order::of(seen.row) {
        Order::List => (versions.prefixes.get(len) == Some(&seen.hash)).then_some(len),
        // Two elements are those of two rows.
        Order::Register if len > 1 => None,
        Order::Register => versions.at.get(&seen.last).map(|at| at + 1),
    }
}

/// Groups of nodes that reach each other, by Tarjan's algorithm without recursion.
fn circles(graph: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let mut index = vec![NEW; graph.len()];
    let mut low = vec![0; graph.len()];
    let mut is_open = vec![false; graph.len()];
    let (mut open, mut found, mut count) = (Vec::new(), Vec::new(), 0);
    for root in 0..graph.len() {
        if index[root] != NEW {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some(&mut (node, ref mut edge)) = path.last_mut() {
            if *edge == 0 {
                index[node] = count;
                low[node] = count;
                count += 1;
                open.push(node);
                is_open[node] = true;
            }
            if let Some(&to) = graph[node].get(*edge) {
                *edge += 1;
                if index[to] == NEW {
                    path.push((to, 0));
                } else if is_open[to] {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                low[parent] = low[parent].min(low[node]);
            }
            if low[node] == index[node] {
                let from = open.iter().rposition(|&at| at == node).unwrap_or_default();
                let group = open.split_off(from);
                for &at in &group {
                    is_open[at] = false;
                }
                if group.len() > 1 {
                    found.push(group);
                }
            }
        }
    }
    found
}
