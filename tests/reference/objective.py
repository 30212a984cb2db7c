"""Eq. 1 of the paper by loops over nodes and columns, in plain Python floats."""


def covariance(x) -> list[list[float]]:
    """Divided by B - 1."""
    count, width = len(x), len(x[0])
    means = [sum(float(row[d]) for row in x) / count for d in range(width)]
    return [
        [
            sum((float(row[n]) - means[n]) * (float(row[m]) - means[m]) for row in x) / (count - 1)
            for m in range(width)
        ]
        for n in range(width)
    ]


def terms_of_one_view(u, predicted) -> tuple[float, float, float]:
    """(reconstruction, variance, covariance) terms of L_u, unweighted."""
    count, width = len(u), len(u[0])
    squares = [(float(u[i][d]) - float(predicted[i][d])) ** 2 for i in range(count) for d in range(width)]
    c = covariance(u)
    variance = sum((1 - c[n][n]) ** 2 for n in range(width)) / width
    off = sum(c[n][m] ** 2 for n in range(width) for m in range(width) if n != m) / width
    return sum(squares) / (count * width), variance, off
