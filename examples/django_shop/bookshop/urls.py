from django.urls import path

from bookshop import views

urlpatterns = [
    path("orders/", views.buy),
    path("receipts/<result_id>/", views.receipt),
]
