"""The objectives of the compared methods from their papers' equations: loops in plain Python floats."""

import math

Rows = list[list[float]]


def column(x, d) -> list[float]:
    return [float(row[d]) for row in x]


def mean(values) -> float:
    values = list(values)
    return sum(values) / len(values)


def standardised(x) -> Rows:
    """Columns of mean 0 and deviation 1, deviations divided by B."""
    columns = []
    for d in range(len(x[0])):
        values = column(x, d)
        centre = mean(values)
        deviation = math.sqrt(mean((v - centre) ** 2 for v in values))
        columns.append([(v - centre) / deviation for v in values])
    return [list(row) for row in zip(*columns, strict=True)]


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def cosine(a, b) -> float:
    dot = sum(float(p) * float(q) for p, q in zip(a, b, strict=True))
    return dot / math.sqrt(sum(float(p) ** 2 for p in a)) / math.sqrt(sum(float(q) ** 2 for q in b))


def dgi(z, corrupted, weight) -> tuple[float, float]:
    """Eq. 1 of Velickovic et al., each half a mean of its own: log D(z, s) and log(1 - D(z~, s))."""
    width = len(z[0])
    summary = [sigmoid(mean(column(z, d))) for d in range(width)]

    def discriminate(row) -> float:
        pairs = [(n, m) for n in range(width) for m in range(width)]
        return sigmoid(sum(float(row[n]) * float(weight[n][m]) * summary[m] for n, m in pairs))

    real = -mean(math.log(discriminate(row)) for row in z)
    return real, -mean(math.log(1 - discriminate(row)) for row in corrupted)


def gbt(a, b) -> tuple[float, float]:
    """Barlow Twins' loss with lambda = 1 / D."""
    a, b, width = standardised(a), standardised(b), len(a[0])
    c = [
        [mean(p * q for p, q in zip(column(a, n), column(b, m), strict=True)) for m in range(width)]
        for n in range(width)
    ]
    off = sum(c[n][m] ** 2 for n in range(width) for m in range(width) if n != m)
    return sum((1 - c[n][n]) ** 2 for n in range(width)), off / width


def cca(a, b, weight) -> tuple[float, float]:
    """Eq. 6 of Zhang et al.: columns are standardised and divided by sqrt(B)."""
    root = math.sqrt(len(a))
    a, b = ([[v / root for v in row] for row in standardised(x)] for x in (a, b))
    apart = sum((p - q) ** 2 for r, s in zip(a, b, strict=True) for p, q in zip(r, s, strict=True))
    correlated = 0.0
    for z in (a, b):
        for n in range(len(z[0])):
            for m in range(len(z[0])):
                inner = sum(p * q for p, q in zip(column(z, n), column(z, m), strict=True))
                correlated += (inner - (n == m)) ** 2
    return apart, weight * correlated


def bgrl(p_1, p_2, t_1, t_2) -> tuple[float, float]:
    """1 - cosine of what each view foretells and the other's target, means over nodes."""
    first = mean(1 - cosine(p, t) for p, t in zip(p_1, t_2, strict=True))
    return first, mean(1 - cosine(p, t) for p, t in zip(p_2, t_1, strict=True))


def graphmae(x, restored, gamma) -> float:
    """Eq. 2 of Hou et al."""
    return mean((1 - cosine(p, q)) ** gamma for p, q in zip(x, restored, strict=True))


def cross_entropy(logits, labels) -> float:
    total = 0.0
    for row, label in zip(logits, labels, strict=True):
        total += math.log(sum(math.exp(float(v)) for v in row)) - float(row[int(label)])
    return total / len(labels)


def binary_cross_entropy(logits, labels) -> float:
    chances = [
        (sigmoid(float(v)), int(y))
        for r, q in zip(logits, labels, strict=True)
        for v, y in zip(r, q, strict=True)
    ]
    return -mean(math.log(chance) if y else math.log(1 - chance) for chance, y in chances)
