//! Values of a program under test: small expressions over a thread's registers.
//!
//! Expressions are never freed: a program is built once for each run and is small,
//! and a type that can be copied keeps the protocols readable.
//!
//! SPDX-License-Identifier: MIT
use std::ops::{Add, BitAnd, BitOr, Not, Sub};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinOp {
    Add,
    Sub,
    And,
    Or,
    Eq,
    Ne,
}

impl BinOp {
    pub fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            BinOp::Add => a + b,
            BinOp::Sub => a - b,
            BinOp::And => a & b,
            BinOp::Or => a | b,
            BinOp::Eq => i64::from(a == b),
            BinOp::Ne => i64::from(a != b),
        }
    }
}

#[derive(Debug)]
pub enum Node {
    Const(i64),
    Reg(usize),
    Bin(BinOp, Expr, Expr),
}

#[derive(Clone, Copy, Debug)]
pub struct Expr(pub &'static Node);

impl Expr {
    pub fn new(node: Node) -> Expr {
        Expr(Box::leak(Box::new(node)))
    }
    fn bin(op: BinOp, a: Expr, b: Expr) -> Expr {
        Expr::new(Node::Bin(op, a, b))
    }
    pub fn is(self, b: impl Into<Expr>) -> Expr {
        Expr::bin(BinOp::Eq, self, b.into())
    }
    pub fn is_not(self, b: impl Into<Expr>) -> Expr {
        Expr::bin(BinOp::Ne, self, b.into())
    }
}

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        Expr::new(Node::Const(value))
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident) => {
        impl<T: Into<Expr>> $trait<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                Expr::bin(BinOp::$trait, self, other.into())
            }
        }
    };
}
operator!(Add, add);
operator!(Sub, sub);

impl<T: Into<Expr>> BitAnd<T> for Expr {
    type Output = Expr;
    fn bitand(self, other: T) -> Expr {
        Expr::bin(BinOp::And, self, other.into())
    }
}
impl<T: Into<Expr>> BitOr<T> for Expr {
    type Output = Expr;
    fn bitor(self, other: T) -> Expr {
        Expr::bin(BinOp::Or, self, other.into())
    }
}
impl Not for Expr {
    type Output = Expr;
    fn not(self) -> Expr {
        self.is(0)
    }
}
