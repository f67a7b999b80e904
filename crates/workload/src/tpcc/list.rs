//! The inputs of the transactions (clauses 2.4.1 to 2.8.1), made before the clock starts: the same
//! for every method.
//!
//! Each thread has a list for its own warehouses. Kinds come from shuffled decks, so their shares
//! are exact over each deck. The lines of New-Orders follow each other in one array, in the order
//! in which they are needed.

use super::draw::Constants;
use super::{DISTRICTS, Kind, TpccOptions};
use crate::mix::Deck;
use crate::random::{Random, between, chance};

/// How a customer is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomerBy {
    /// By number.
    Id(i32),
    /// By the number of a last name: the middle one of the customers with that name.
    Name(u16),
}

/// One line of a New-Order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The item; one above the last where the transaction is to be rolled back.
    pub item: i32,
    /// The warehouse that supplies it.
    pub supply_warehouse: i16,
    /// 1 to 10.
    pub quantity: i16,
}

/// The input of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub enum Input {
    NewOrder {
        warehouse: i16,
        district: i16,
        customer: i32,
        /// Where its lines begin.
        first_line: u32,
        /// 5 to 15.
        lines: u8,
    },
    Payment {
        warehouse: i16,
        district: i16,
        customer_warehouse: i16,
        customer_district: i16,
        customer: CustomerBy,
        amount_cents: u32,
    },
    OrderStatus {
        warehouse: i16,
        district: i16,
        customer: CustomerBy,
    },
    Delivery {
        warehouse: i16,
        carrier: i16,
    },
    StockLevel {
        warehouse: i16,
        district: i16,
        threshold: i16,
    },
}

impl Input {
    /// Which of the five it is.
    pub fn kind(self) -> Kind {
        match self {
            Self::NewOrder { .. } => Kind::NewOrder,
            Self::Payment { .. } => Kind::Payment,
            Self::OrderStatus { .. } => Kind::OrderStatus,
            Self::Delivery { .. } => Kind::Delivery,
            Self::StockLevel { .. } => Kind::StockLevel,
        }
    }

    /// The terminal's warehouse.
    pub fn warehouse(self) -> i16 {
        match self {
            Self::NewOrder { warehouse, .. }
            | Self::Payment { warehouse, .. }
            | Self::OrderStatus { warehouse, .. }
            | Self::Delivery { warehouse, .. }
            | Self::StockLevel { warehouse, .. } => warehouse,
        }
    }
}

/// The inputs of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    inputs: Vec<Input>,
    lines: Vec<Line>,
    items: u32,
}

impl List {
    /// All inputs.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The lines of a New-Order.
    #[inline]
    pub fn lines(&self, first_line: u32, lines: u8) -> &[Line] {
        &self.lines[first_line as usize..][..usize::from(lines)]
    }

    /// Whether a transaction asks for an item that there is not and is therefore rolled back.
    pub fn rolls_back(&self, input: Input) -> bool {
        match input {
            Input::NewOrder {
                first_line, lines, ..
            } => {
                let last = self.lines(first_line, lines).last();
                last.is_some_and(|line| line.item.cast_unsigned() > self.items)
            }
            _ => false,
        }
    }

    /// Calls `visit` with each warehouse that a transaction touches, its own first.
    #[inline]
    pub fn warehouses(&self, input: Input, mut visit: impl FnMut(i16)) {
        visit(input.warehouse());
        match input {
            Input::NewOrder {
                first_line, lines, ..
            } => {
                for line in self.lines(first_line, lines) {
                    visit(line.supply_warehouse);
                }
            }
            Input::Payment {
                customer_warehouse, ..
            } => visit(customer_warehouse),
            _ => {}
        }
    }
}

/// The warehouses of a list, in ascending order.
pub(super) fn warehouses(options: &TpccOptions, list: u32) -> impl Iterator<Item = i16> + use<> {
    let lists = options.lists();
    (1..=options.warehouses)
        .filter(move |warehouse| warehouse % lists == list)
        .map(|warehouse| warehouse as i16)
}

/// Makes the list of this number.
pub(super) fn generate(options: &TpccOptions, constants: Constants, list: u32, count: u64) -> List {
    let own: Vec<i16> = warehouses(options, list).collect();
    let partition = list % options.partitions;
    let is_reachable =
        |warehouse: &u32| !options.single_partition || warehouse % options.partitions == partition;
    let reachable = (1..=options.warehouses)
        .filter(is_reachable)
        .map(|warehouse| warehouse as i16)
        .collect();
    let mut maker = Maker {
        options,
        constants,
        own,
        reachable,
        random: Random::new(options.seed ^ 0x7CC0 ^ u64::from(list) << 48),
        lines: Vec::new(),
    };
    let mut deck = Deck::new(options.mix);
    let inputs = (0..count)
        .map(|_| {
            let kind = deck.draw(&mut maker.random);
            maker.input(kind)
        })
        .collect();
    List {
        inputs,
        lines: maker.lines,
        items: options.scale.items,
    }
}

struct Maker<'o> {
    options: &'o TpccOptions,
    constants: Constants,
    own: Vec<i16>,
    /// Warehouses that may supply lines and send customers.
    reachable: Vec<i16>,
    random: Random,
    lines: Vec<Line>,
}

impl Maker<'_> {
    fn input(&mut self, kind: Kind) -> Input {
        let warehouse = self.own[self.random.below(self.own.len() as u64) as usize];
        let district = between(&mut self.random, 1, DISTRICTS.cast_unsigned().into()) as i16;
        match kind {
            Kind::NewOrder => self.new_order(warehouse, district),
            Kind::Payment => self.payment(warehouse, district),
            Kind::OrderStatus => Input::OrderStatus {
                warehouse,
                district,
                customer: self.customer(),
            },
            Kind::Delivery => Input::Delivery {
                warehouse,
                carrier: between(&mut self.random, 1, 10) as i16,
            },
            Kind::StockLevel => Input::StockLevel {
                warehouse,
                district,
                threshold: between(&mut self.random, 10, 20) as i16,
            },
        }
    }

    fn new_order(&mut self, warehouse: i16, district: i16) -> Input {
        let scale = self.options.scale;
        let customer = self
            .constants
            .customer(&mut self.random, scale.customers)
            .cast_signed();
        let count = between(&mut self.random, 5, 15);
        let rolls_back = chance(&mut self.random, 1);
        let first_line = self.lines.len() as u32;
        for number in 1..=count {
            let item = if rolls_back && number == count {
                scale.items + 1
            } else {
                self.constants.item(&mut self.random, scale.items)
            };
            let supply_warehouse = if chance(&mut self.random, 1) {
                self.other_than(warehouse)
            } else {
                warehouse
            };
            self.lines.push(Line {
                item: item.cast_signed(),
                supply_warehouse,
                quantity: between(&mut self.random, 1, 10) as i16,
            });
        }
        Input::NewOrder {
            warehouse,
            district,
            customer,
            first_line,
            lines: count as u8,
        }
    }

    fn payment(&mut self, warehouse: i16, district: i16) -> Input {
        let mut customer_warehouse = warehouse;
        let mut customer_district = district;
        if chance(&mut self.random, 15) {
            customer_warehouse = self.other_than(warehouse);
            if customer_warehouse != warehouse {
                customer_district =
                    between(&mut self.random, 1, DISTRICTS.cast_unsigned().into()) as i16;
            }
        }
        Input::Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: self.customer(),
            amount_cents: between(&mut self.random, 100, 500_000),
        }
    }

    fn customer(&mut self) -> CustomerBy {
        let scale = self.options.scale;
        if chance(&mut self.random, 60) {
            CustomerBy::Name(self.constants.name_to_ask(&mut self.random, scale.names()) as u16)
        } else {
            CustomerBy::Id(
                self.constants
                    .customer(&mut self.random, scale.customers)
                    .cast_signed(),
            )
        }
    }

    /// Another warehouse; the same one if there is no other.
    fn other_than(&mut self, warehouse: i16) -> i16 {
        let others = self.reachable.len() as u64 - 1;
        if others == 0 {
            return warehouse;
        }
        let chosen = self.reachable[self.random.below(others) as usize];
        if chosen == warehouse {
            // The last one takes the place of the one that is left out.
            return self.reachable[others as usize];
        }
        chosen
    }
}
