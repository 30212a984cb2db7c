"""Effective rank and the covariance report on tables whose answer is known."""

import numpy as np
import pytest
import scipy.sparse

from lrgi.errors import InputError
from lrgi.graph.features import DenseTable, as_table
from lrgi.probe import rank
from lrgi.probe.rank import covariance, covariance_report, effective_rank


def slow_rank(rows):
    values = np.linalg.svd(rows - rows.mean(0), compute_uv=False)
    share = values / values.sum()
    share = share[share > 1e-15]
    return np.exp(-(share * np.log(share)).sum())


def table(rows=200, columns=12, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32) ** 3 + 4


def test_effective_rank_equals_the_singular_values_of_the_whole(monkeypatch):
    expected = slow_rank(table().astype(float))
    assert effective_rank(DenseTable(table())) == pytest.approx(expected, rel=1e-6)
    monkeypatch.setattr(rank, "_CHUNK_BYTES", 1000)
    assert effective_rank(DenseTable(table())) == pytest.approx(expected, rel=1e-6)
    assert effective_rank(as_table(scipy.sparse.csr_matrix(table()))) == pytest.approx(expected, rel=1e-6)


def test_effective_rank_of_known_tables():
    turned = np.linalg.qr(table(64, 64).astype(float) - 4)[0][:, :8]
    assert effective_rank(DenseTable(turned)) == pytest.approx(8, rel=0.05)
    line = np.outer(np.arange(50), [1, 2, 3, 4])
    assert effective_rank(DenseTable(line)) == pytest.approx(1, abs=1e-4)
    assert effective_rank(DenseTable(np.ones((5, 3)))) == 0.0


def test_a_table_with_many_columns_uses_rows_instead(monkeypatch):
    expected = slow_rank(table(30, 80).astype(float))
    monkeypatch.setattr(rank, "_MOST_COLUMNS", 40)
    assert effective_rank(DenseTable(table(30, 80))) == pytest.approx(expected, rel=1e-5)
    sampled = effective_rank(DenseTable(table(100, 80)))
    assert sampled == effective_rank(DenseTable(table(100, 80)))
    assert 1 < sampled <= 40
    with pytest.raises(InputError, match="at most 40 columns, got 80; report on embeddings"):
        covariance_report(DenseTable(table(100, 80)))


def test_covariance_and_its_report_equal_numpy():
    rows = table().astype(float)
    np.testing.assert_allclose(covariance(DenseTable(table())), np.cov(rows.T, bias=True), rtol=1e-6)
    report = covariance_report(DenseTable(table()))
    correlation = np.corrcoef(rows.T)
    apart = ~np.eye(12, dtype=bool)
    assert report.smallest_variance == pytest.approx(rows.var(0).min(), rel=1e-6)
    assert report.largest_variance == pytest.approx(rows.var(0).max(), rel=1e-6)
    assert report.mean_squared_correlation == pytest.approx((correlation[apart] ** 2).mean(), rel=1e-5)


def test_collapse_shows():
    same = covariance_report(DenseTable(np.outer(np.arange(9), [1, -1])))
    assert same.mean_squared_correlation == pytest.approx(1)
    still = covariance_report(DenseTable(np.stack([np.arange(9), np.ones(9)], 1)))
    assert still.smallest_variance == 0.0
    assert still.mean_squared_correlation == 0.0


def test_one_row_has_no_covariance():
    with pytest.raises(InputError) as caught:
        effective_rank(DenseTable(np.ones((1, 3))))
    assert "at least 2 rows and 1 column to have a covariance, got (1, 3); embed" in str(caught.value)
